"""CSV files as spreadsheets write them: read whatever their dialect, with the line of every mistake."""

import contextlib
import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heterobandits import InvalidInput
from heterobandits.campaigns import service
from heterobandits.campaigns.files.csv_tables import (
    CELL_SEPARATORS,
    escape_formula,
    heading_of_agents,
    parse_last_season,
    parse_outcome,
    parse_pasted_agents,
    parse_pasted_arms,
    parse_pasted_outcomes,
    read_agents,
    read_arms,
    read_outcomes,
    read_team,
    render_visits,
    unescape_formula,
)
from heterobandits.campaigns.outcomes import report_outcomes
from heterobandits.campaigns.storage.repository import Author
from heterobandits.campaigns.validation import InvalidFields
from parks import VERA, opened, park

AGENTS = [("Ana", 0.9, 1, None), ("Béa", 0.75, 12, [17, 20])]


@pytest.fixture
def file(tmp_path):
    """A file with this text or these bytes."""

    def make(content, name="agents.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


class TestDialects:
    """The same agents, however they were saved."""

    @pytest.mark.parametrize(
        "text",
        [
            "name,sensitivity,tests,calibration\nAna,0.9,,\nBéa,0.75,12,17/20\n",
            "\ufeffname,sensitivity,tests,calibration\nAna,0.9,,\nBéa,0.75,12,17/20\n",
            "name;sensitivity;tests;calibration\r\nAna;0,9;;\r\nBéa;0,75;12;17/20\r\n",
            "name\tsensitivity\ttests\tcalibration\nAna\t.9\t1\t\nBéa\t7.5e-1\t12\t17 of 20\n",
            "\n  \n Calibration , TESTS,Sensitivity ,name\n\n, 1 , 0.90,Ana\n,,,\n 17 / 20,12,0.75,  Béa  ",
            '"name","sensitivity","tests","calibration"\n"Ana","0.9","1",""\n"Béa","0.75","12","17/20"',
            "name,sensitivity,tests,calibration,,\nAna,0.9,,,,\nBéa,0.75,12,17/20,,\n",
            "name,sensitivity,tests,calibration\rAna,0.9\rBéa,0.75,12,17/20",
        ],
    )
    def test_are_understood(self, file, text):
        read = read_agents(file(text))
        fields = ("name", "sensitivity", "tests", "calibration")
        assert [tuple(one[field] for field in fields) for one in read] == AGENTS

    def test_headings_may_have_blanks_or_dashes(self, file):
        (one,) = read_agents(file("Name,Sensitivity,False positive-rate\nAna,0.9,0.05\n"))
        assert one["false_positive_rate"] == 0.05

    def test_a_comma_in_a_name_stays_where_semicolons_part(self, file):
        (one,) = read_agents(file("name;sensitivity\n1,5;0,5\n"))
        assert (one["name"], one["sensitivity"]) == ("1,5", 0.5)

    def test_a_calibration_alone_will_do(self, file):
        (one,) = read_agents(file("name,calibration\nAna,17/20\n"))
        assert one["sensitivity"] == pytest.approx(18 / 22)

    def test_both_files_at_once(self, file):
        agents = file("name,sensitivity\nAna,0.9\n")
        arms = file("NAME\nriver\n\nhill\n", "arms.csv")
        read, names = read_team(agents, arms)
        assert [one["name"] for one in read] == ["Ana"]
        assert names == ["river", "hill"]


class TestMistakes:
    """What is wrong, where it stands."""

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "line 1: no column is called 'name': the first line names the columns"),
            ("Ana,ninety 9\nBen,0.8\n", "line 1: unknown column 'Ana': "),
            ("sensitivity\n0.9\n", "line 1: no column is called 'name': the first line names the columns"),
            ("name,name\nAna,Ben\n", "line 1: two columns are called 'name'"),
            ("name,sensitivity\n", " has no lines after the first: at least one"),
            ("name,sensitivity\nAna,0.9,7\n", "line 2 has 3 cells: the first has 2"),
            ('name,sensitivity\n"Ana,0.9\n', "line 2: this is no CSV: unexpected end of data"),
            ("name,sensitivity\nAna,0.9\n\n\nBen,1.2\n", "line 5: sensitivity is 1.2: a sensitivity is a probability in (0, 1]"),
            ("name,sensitivity\nAna,high\n", "line 2: sensitivity is 'high': a sensitivity is"),
            ("name,sensitivity\nAna,nan\n", "line 2: sensitivity is nan: a sensitivity is"),
            ("name,sensitivity\n,0.9\n", "line 2: name is blank: every agent has a name"),
            ("name,sensitivity\nAna\n", "line 2: sensitivity is missing: a probability in (0, 1]"),
            ("name,sensitivity,tests\nAna,0.9,1.5\n", "line 2: tests is 1.5: a whole number from 1 to"),
            ("name,sensitivity,calibration\nAna,0.9,17\n", "line 2: calibration is '17': how many of how many"),
            ("name,sensitivity,calibration\nAna,0.9,21/20\n", "line 2: calibration: what was reported is 21: "),
            ("name,sensitivity,false_positive_rate\nAna,0.3,0.4\n", "line 2: false_positive_rate is 0.4, its sensitivity 0.3: "),
            ('name,sensitivity\n"Ana\nBen",0.9\nCy,2\n', "line 2: name is 'Ana\\nBen': a name has no control"),
        ],
    )  # fmt: skip
    def test_is_named_with_its_line(self, file, text, message):
        path = file(text)
        with pytest.raises(InvalidInput) as raised:
            read_agents(path)
        said = str(raised.value).replace(f"{path}, ", "").replace(str(path), "")
        assert said.startswith(message)

    def test_all_of_both_files_are_named(self, file):
        agents = file("name,sensitivity\nAna,2\nBen,0.5\nBen,x\n")
        arms = file("name\nriver\nagent-1\n", "arms.csv")
        with pytest.raises(InvalidFields) as raised:
            read_team(agents, arms)
        found = [place.rpartition("/")[2] for place, _ in raised.value.errors]
        assert found == [
            "agents.csv, line 2: sensitivity",
            "agents.csv, line 4: name",
            "agents.csv, line 4: sensitivity",
            "arms.csv, line 3: name",
        ]

    def test_a_cell_of_several_lines_does_not_shift_the_numbers(self, file):
        with pytest.raises(InvalidFields) as raised:
            read_agents(file('name,sensitivity\n"a\nb",0.9\nCy,2\n'))
        assert [place.rpartition(", ")[2] for place, _ in raised.value.errors] == [
            "line 2: name",
            "line 4: sensitivity",
        ]

    @pytest.mark.parametrize("content", [b"name\nBj\xf6rn\n", "name\nAna\n".encode("utf-16")])
    def test_another_encoding_is_not_guessed_at(self, file, content):
        with pytest.raises(InvalidInput, match=r"cannot read .*: save it as UTF-8"):
            read_arms(file(content))

    def test_a_folder_or_nothing_at_all(self, tmp_path):
        for path in (tmp_path, tmp_path / "none.csv"):
            with pytest.raises(InvalidInput, match="cannot read "):
                read_arms(path)


class TestPasted:
    """Texts that were copied, with or without a line that names their columns."""

    @pytest.mark.parametrize(
        "text",
        [
            "Ana\t0.9\t1\nBéa\t0.75\t12",
            "Ana\t0,9\r\nBéa\t0,75\t12\r\n",
            "Ana;0,9\nBéa;0,75;12",
            "\n\nAna,0.9,\n\nBéa,.75, 12",
            '"Ana","0.9"\n"Béa","0.75","12"',
            "Tests;Name;Sensitivity\n;Ana;0,9\n12;Béa;0,75",
            "name\tsensitivity\ttests\nAna\t0.9\nBéa\t0.75\t12",
        ],
    )
    def test_agents(self, text):
        read = parse_pasted_agents(text)
        assert [(one["name"], one["sensitivity"], one["tests"]) for one in read] == [
            ("Ana", 0.9, 1),
            ("Béa", 0.75, 12),
        ]

    @pytest.mark.parametrize(
        "text",
        [
            "Ana 0.9\nBéa Ngo 0.75",
            "Ana 90%\nBéa Ngo 75 %",
            "Ana\t90 %\nBéa Ngo\t75",
            "Ana 0,9\nBéa Ngo 0,75",
            "Ana;90 %\nBéa Ngo;75,0 %",
            "Ana,0,9\nBéa Ngo,0,75",
            "1. Ana 0.9\n2. Béa Ngo 75",
            "1) Ana: 0.9\n2) Béa Ngo: 0.75",
            "1\tAna\t0,9\n2\tBéa Ngo\t0,75",
            "1.;Ana;90\n2.;Béa Ngo;75",
            "Nom / Sensibilité\nAna 0.9\nBéa Ngo 0.75",
            "Nom;Sensibilité\nAna;0,9\nBéa Ngo;0,75",
            "Имя\tЧувствительность\nAna\t0,9\nBéa Ngo\t0,75",
            "الاسم,الحساسية\nAna,0.9\nBéa Ngo,0.75",
        ],
    )
    def test_as_people_type_them(self, text, file):
        read = parse_pasted_agents(text)
        assert [(one["name"], one["sensitivity"]) for one in read] == [
            ("Ana", 0.9),
            ("Béa Ngo", 0.75),
        ]
        assert read_agents(file(text)) == read
        first = text.partition("\n")[0]
        assert heading_of_agents(text) == ("" if "Ana" in first else first)

    @pytest.mark.parametrize("rate", ["17/20", "17 of 20", "17 / 20"])
    @pytest.mark.parametrize("mark", [" ", ";", "\t", ","])
    def test_what_a_trial_found_is_a_calibration(self, mark, rate):
        for one in parse_pasted_agents(f"Ana{mark}{rate}\nBen{mark}{rate}"):
            assert one["calibration"] == [17, 20]
            assert one["sensitivity"] == pytest.approx(18 / 22)

    @pytest.mark.parametrize("text", ["Ana;1,2\nBen;0,5", "Ana 1.75\nBen 0.5", "Ana,5\nBen,0.5"])
    def test_a_slip_above_one_is_no_percentage(self, text):
        with pytest.raises(InvalidFields, match=r"line 1: sensitivity is (1\.2|1\.75|5):"):
            parse_pasted_agents(text)

    def test_one_is_one_and_names_keep_their_numbers(self):
        read = parse_pasted_agents("Ranger 1 1\nRanger 2 100 %\nRanger 3 100")
        assert [(one["name"], one["sensitivity"]) for one in read] == [
            (f"Ranger {n}", 1.0) for n in (1, 2, 3)
        ]
        with pytest.raises(InvalidFields, match="line 1: sensitivity is missing"):
            parse_pasted_agents("Ranger 1\nRanger 2")
        assert parse_pasted_arms("1. river\n2. 5 acre field") == ["river", "5 acre field"]
        assert parse_pasted_arms("7. river\n9. hill") == ["7. river", "9. hill"]

    def test_a_first_line_with_a_mistake_is_no_heading(self):
        for text in ("Ana;0,9 maybe\nBen;0,8", "Ana;\nBen;0,8", "Ana;high"):
            assert heading_of_agents(text) == ""
            with pytest.raises(InvalidFields, match="line 1: sensitivity"):
                parse_pasted_agents(text)

    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ('"Smith, Ana",0.9', "Smith, Ana"),
            ("Smith, Ana\t0,9", "Smith, Ana"),
            ("Smith, Ana;0,9", "Smith, Ana"),
            ('"a ""b"" c";0,9', 'a "b" c'),
        ],
    )
    def test_a_comma_or_quotes_in_a_name(self, text, name):
        (one,) = parse_pasted_agents(text)
        assert (one["name"], one["sensitivity"]) == (name, 0.9)

    @pytest.mark.parametrize(
        "text",
        ["river\nElm, 1\nx;y", "\n river \r\nElm, 1\r\n\r\nx;y", "NAME\nriver\n\"Elm, 1\"\nx;y",
         "river\tfar\t3\nElm, 1\nx;y\tnear", 'river\n"Elm, 1"\n"x;y"'],
    )  # fmt: skip
    def test_arms_are_whole_lines_or_the_first_column(self, text):
        assert parse_pasted_arms(text) == ["river", "Elm, 1", "x;y"]

    def test_mistakes_have_the_line_and_no_file(self):
        with pytest.raises(InvalidFields) as raised:
            parse_pasted_agents("\nAna;0,9\n\nBen;1,2\n;0,5\nAna;x")
        assert raised.value.errors == (
            ("line 4: sensitivity", "line 4: sensitivity is 1.2: a sensitivity is a probability in (0, 1]"),
            ("line 5: name", "line 5: name is blank: every agent has a name"),
            ("line 6: name", "line 6: name is 'Ana': that name is taken"),
            ("line 6: sensitivity", "line 6: sensitivity is 'x': a sensitivity is a probability in (0, 1]"),
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("read", "text", "message"),
        [
            (parse_pasted_agents, "", "agents is empty: at least one agent"),
            (parse_pasted_arms, "\n \n", "arms is empty: at least one arm"),
            (parse_pasted_agents, "Name;Sens\nAna;1", "line 1: unknown column 'Sens': known are name, sensitivity"),
            (parse_pasted_agents, "name\n", "the text has no lines after the first: at least one"),
            (parse_pasted_agents, "Ana,0.9\nBen,0.8,1,1,1", "line 2 has 5 cells: name, sensitivity, tests, unless the first line"),
            (parse_pasted_arms, "name,district\nx,1", "line 1: unknown column 'district': known are name, prior"),
            (parse_pasted_arms, "\tfar\nx", "line 1: name is '': a name is a text that is not blank"),
            (parse_pasted_arms, 'a\n"b', "line 2: this is no CSV: unexpected end of data"),
        ],
    )  # fmt: skip
    def test_what_is_no_table(self, read, text, message):
        with pytest.raises(InvalidInput) as raised:
            read(text)
        assert str(raised.value).startswith(message)

    @given(st.text(), st.sampled_from([parse_pasted_agents, parse_pasted_arms]))
    def test_any_text_is_read_or_refused(self, text, read):
        with contextlib.suppress(InvalidInput):
            assert read(text)


class TestOutcomes:
    """What came of visits."""

    def test_in_one_column_or_in_two(self, file):
        one = read_outcomes(file("agent,outcome\nAna,1\nBen,3/12\nCy,-\n"))
        assert [entry[1:] for entry in one] == [("Ana", "1"), ("Ben", "3/12"), ("Cy", "-")]
        path = file("tests,successes,agent,arm\n1,1,Ana,ford\n12,3,Ben,\n")
        assert read_outcomes(path) == [
            (f"{path}, line 2", ("Ana", "ford"), "1/1"),
            (f"{path}, line 3", "Ben", "3/12"),
        ]

    def test_lines_that_do_not_say_it_are_all_named(self, file):
        text = "agent,outcome,successes,tests\nAna,,,\n,1,,\nBen,1,1,1\nCy,,1,\nDan,0,,\n"
        with pytest.raises(InvalidFields) as raised:
            read_outcomes(file(text))
        assert [place[-1] for place, _ in raised.value.errors] == ["2", "3", "4", "5"]
        assert "agent is missing" in str(raised.value)

    @pytest.mark.parametrize(
        ("text", "outcome"),
        [("0", 0), (" 1 ", 1), ("3/12", (3, 12)), ("3 of 12", (3, 12)), ("-", "not done"), ("'-", "not done")],
    )  # fmt: skip
    def test_are_read_as_people_write_them(self, text, outcome):
        assert parse_outcome(text) == outcome

    @pytest.mark.parametrize("text", ["1/0", "13/12", "2 of 1"])
    def test_more_successes_than_tests_are_refused(self, text):
        with pytest.raises(InvalidInput, match=rf"^the outcome is '{text}': at most all tests are"):
            parse_outcome(text)

    @pytest.mark.parametrize(
        "text", ["", "2", "-1", "1.0", "yes", "3/", "/12", "3/12/1", "1/-2", "9" * 400]
    )
    def test_anything_else_is_refused(self, text):
        with pytest.raises(InvalidInput, match=r"the outcome is .*: 0, 1, successes of tests"):
            parse_outcome(text)


class TestFormulas:
    """Cells that a spreadsheet would compute."""

    @given(st.text())
    def test_no_cell_is_one_and_every_text_comes_back(self, text):
        cell = escape_formula(text)
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
        assert unescape_formula(cell) == text

    @given(st.text(alphabet="'=＝ab;\t\" ,"))
    @example("x;\"=cmd|'/C calc'!A0;")
    @example("x; =1")
    def test_nor_is_one_where_other_marks_part_cells(self, text):
        line = io.StringIO()
        csv.writer(line).writerow(["1", escape_formula(text), "a"])
        for mark in CELL_SEPARATORS:
            for part in next(csv.reader([line.getvalue().rstrip("\r\n")], delimiter=mark)):
                assert not part.strip().startswith(("=", "＝"))
        assert unescape_formula(escape_formula(text)) == text

    @pytest.mark.parametrize(
        ("text", "cell"),
        [("x;=cmd|'/C calc'!A0", "x;'=cmd|'/C calc'!A0"), ("＝1", "'＝1"), ("＋1", "'＋1"), ("－1", "'－1"), ("＠A1", "'＠A1")],
    )  # fmt: skip
    def test_full_width_and_after_semicolons(self, text, cell):
        assert escape_formula(text) == cell

    @given(st.text(alphabet="'=+-@ab\t;＠\" "))
    def test_also_where_texts_begin_with_apostrophes(self, text):
        assert unescape_formula(escape_formula(text)) == text

    def test_names_in_files_are_what_they_were(self, file):
        names = ["=1+1", "'=1+1", "'t Harde", "-x", "plain", "x;=1", "＝1"]
        path = file("name\n" + "".join(f"{escape_formula(name)}\n" for name in names))
        assert read_arms(path) == names
        by_hand = file("name\n=1+1\n", "arms.csv")
        assert read_arms(by_hand) == ["=1+1"]


class TestPastedOutcomes:
    """Outcomes from a spreadsheet, a visit a line; the forms that a file of the command line may have, and those of spreadsheets."""

    @pytest.mark.parametrize(
        "text",
        [
            "3\tAna\triver\t2\t5\n3\tBen\t\t-\n4\tChi\thill\t3/12",
            "3;Ana;river;2;5\n3;Ben;;not done;\n4;Chi;hill;3/12;",
            "3,Ana,river,2,5\n3,Ben,,-,\n4,Chi,hill,3/12",
            "Round;Agent;Arm;Found;Of\n3,0;Ana;river;2,0;5,0\n3;Ben;;-;\n4;Chi;hill;3 of 12;",
            "arm,of,found,agent,round\nriver,5.0,2.0,Ana,3.0\n,,not done,Ben,3\nhill,12,3,Chi,4",
            "\n round,agent,arm,outcome \n\n3,Ana,river,2/5\n3,Ben,,-\n4,Chi,hill,3/12\n",
        ],
    )
    def test_in_many_forms(self, text):
        lines = parse_pasted_outcomes(text)
        assert [line[2:] for line in lines] == [
            (3, "Ana", "river", (2, 5), None),
            (3, "Ben", None, "not done", None),
            (4, "Chi", "hill", (3, 12), None),
        ]

    @pytest.mark.parametrize(
        ("line", "wrong"),
        [
            (";Ana;;1;5", "round is missing"),
            ("1;;;1;5", "agent is missing"),
            ("1;Ana;;;", "outcome is missing"),
            ("1;Ana;;1;", "outcome is missing"),
            ("1;Ana;;6;5", "at most all tests are successes"),
            ("1;Ana;;1,5;5", "the outcome is '1.5/5'"),
            ("1;Ana;;-1;5", "the outcome is '-1/5'"),
            ("1;Ana;;1;5;more", "6 cells, and 5 columns"),
        ],
    )
    def test_a_line_that_is_wrong_says_so_and_is_in_the_way_of_no_other(self, line, wrong):
        first, second = parse_pasted_outcomes(f"{line}\n2;Ben;;1;5")
        assert wrong in first.wrong
        assert (first.number, second.number) == (1, 2)
        assert second.outcome == (1, 5)

    def test_columns_that_have_to_be_there(self):
        with pytest.raises(InvalidInput, match="no column is called 'round'"):
            parse_pasted_outcomes("agent;found;of\nAna;1;1")


class TestColumnsOfVisits:
    def test_who_was_away_and_where_the_plan_sent_whom(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        at = service.plan_round(log, campaign, VERA, absent=["Ben"]).state.rounds[0]
        state = log.state(campaign)
        planned = state.arms[at.assignment[0]].name
        other = next(arm.name for n, arm in enumerate(state.arms) if n not in at.assignment)
        service.override(log, campaign, VERA, 1, "Ana", [other])
        service.override(log, campaign, VERA, 1, "Chi", [])
        report_outcomes(log, campaign, Author("Zoë"), 1, {"Ana": 1})
        text = render_visits(log.state(campaign), log.store.tellings(campaign, ("reported",)))
        rows = list(csv.DictReader(io.StringIO(text)))
        ana, ben, chi = (
            next(row for row in rows if row["agent"] == n) for n in ("Ana", "Ben", "Chi")
        )
        (event,) = log.store.read(campaign)[-1:]
        assert (ana["arm"], ana["planned_arm"], ana["reported_by"]) == (other, planned, "Zoë")
        assert ana["reported_at"] == event.time[:16].replace("T", " ")
        assert ana["planned_at"] == at.time[:16].replace("T", " ")
        assert (ben["status"], ben["arm"], ben["tests"]) == ("absent", "", "")
        assert (chi["status"], chi["arm"]) == ("stayed home", "")
        assert list(rows[0])[:10] == [
            "round", "planned", "agent", "arm", "successes", "tests", "status", "tests_planned", "far",
            "sensitivity",
        ]  # fmt: skip
        log.store.close()

    def test_it_can_be_the_last_season_of_another_campaign(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        service.plan_round(log, campaign, VERA, absent=["Ben"])
        report_outcomes(log, campaign, VERA, 1, {"Ana": 1})
        state = log.state(campaign)
        arms = [{"name": arm.name} for arm in state.arms]
        found = [
            parse_last_season(render_visits(state, separator=mark), arms) for mark in (",", ";")
        ]
        assert found[0] == found[1]
        assert len(found[0]) == 1
        log.store.close()
