"""What the library says of a mistake, in the words of the person who made it.

Programs and the command line are told what field is wrong and how Python would write what was given. On a page the field is at hand, and
nobody knows Python.
"""

import re

from heterobandits.planner.vocabulary import DEFAULT_WORDS, CampaignWords, with_article

RATE_HINT = "a number from 0 to 1 or a percentage, such as 0.85 or 85 %"
VALUE = r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s:;,]+)"  # as `repr_of` writes it
FIELD = r"(?:the )?[\w\[\].]+(?: \d+)?"  # what is wrong, as programs know it
# What is said by the library, and what instead; the first that fits the message, or what follows the place in front of it.
REWORDINGS = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (rf"{FIELD} is ({VALUE}): a (sensitivity|false positive rate|mean) is a probability in [(\[]0, 1\]", rf"please give {RATE_HINT}, not \1"),
        (r"\S+ is missing: a probability in \(0, 1\]", f"the sensitivity is missing: {RATE_HINT}"),
        (rf"false_positive_rate is ({VALUE}), its sensitivity ({VALUE}): .*",
         r"false alarms (\1) have to be rarer than finds (\2): a report would tell nothing"),
        (rf"{FIELD} is ({VALUE}): a probability strictly between 0 and 1", r"please give a number between 0 and 1, such as 0.05, not \1"),
        (rf"delta is ({VALUE}): at least .*", r"\1 is too small to be computed with"),
        (rf"{FIELD} is (?:''|None): a name is a text that is not blank", "Please give a name."),
        (rf"{FIELD} is (?:''|None): a text that is not blank", "Please write something."),
        (r"name is blank: every agent has a name", "the name is missing"),
        (rf"{FIELD} is ({VALUE}): that name is taken", r"\1 is there already: choose another name"),
        (rf"{FIELD} has ([\d,]+) letters: at most ([\d,]+)", r"that has \1 letters: at most \2"),
        (rf"{FIELD} is ({VALUE}): names like agent-1 and arm-1 are ids", r"\1 cannot be a name, as the server calls others like this"),
        (rf"{FIELD} is ({VALUE}): a name has no control, .*", r"\1 has signs that nobody sees: type it anew"),
        (rf"{FIELD} is ({VALUE}): the history would not tell it from .*",
         r"\1 looks like the name of another link's holder, or of the owner: give another name, or revoke that link first"),
        (rf"season is ({VALUE}): ([\d,]+) rounds are planned already", r"\2 {rounds} are planned already: the season cannot be shorter"),
        (rf"{FIELD} is ({VALUE}): (a whole number.*)", r"please give \2, not \1"),
        (rf"{FIELD} is ({VALUE}): how many of how many.*", r"please say how many of how many were found, such as 17 of 20, not \1"),
        (rf"\S+: what was reported is ({VALUE}): .*", r"\1 cannot be: no more are found than there were {tests}"),
        (r"agents is empty: at least one agent", "Please list at least one {agent}."),
        (r"arms is empty: at least one arm", "Please list at least one {arm}."),
        (rf"low is ({VALUE}) and high ({VALUE}): the lowest mean comes first", r"\1 is more than \2: the smaller number comes first"),
        (rf"{FIELD} is ({VALUE}): (a word of 1 to .*)", r"please give \2, not \1"),
        (rf"words has ({VALUE}) for (\w+) and for (\w+): .*", r"\1 stands for two things: give each a word of its own"),
        (rf"prior is ({VALUE}): (such as .*)", r"please write it \2, not \1"),
        (r"there are ([\d,]+) agents and ([\d,]+) arms: each agent needs an arm of its own.*",
         r"there are \1 {agents} and \2 {arms}: each {agent} needs {an_arm} of their own"),
        (r"counts is (.+?): .*", r"please give a number from 0, not at all, to 1, as if seen now, or a percentage, not \1"),
        (r"round [\d,]+ is after the end of the season, which has ([\d,]+): .*", r"All \1 {rounds} of the season are planned: make it longer first."),
        (rf"forced pair \(({VALUE}), ({VALUE})\): two agents are forced to that arm", r"Two {agents} cannot both have to go to \2."),
        (rf"forced pair \(({VALUE}), ({VALUE})\): the agent is forced to two arms", r"\1 cannot have to go to two places."),
        (rf"forced pair \(({VALUE}), ({VALUE})\): the pair is forbidden as well", r"\1 cannot both have to go to \2 and not be allowed to."),
        (rf"forced pair \(({VALUE}), ({VALUE})\): the agent (is absent|left the team)", r"\1 cannot have to go to \2: \1 \3."),
        (rf"forced pair \(({VALUE}), ({VALUE})\): the arm is closed", r"\1 cannot have to go to \2, which is closed."),
        (r"round (\d+) is not the last: rounds are cancelled from the last back, and that is (\d+)",
         r"{round} \1 is not the last: {rounds} are cancelled from the last back, and that is \2"),
        (rf"round (\d+) cannot be cancelled: the visit of ({VALUE}) to ({VALUE}) in round \d+ is reported already; (.*), or close the round",
         r"{round} \1 cannot be cancelled: the visit of \2 to \3 is reported already; \4, or close the {round}"),
        (rf"round ({VALUE}) is not planned: rounds 1 to (\d+) are", r"{round} \1 is not planned: {rounds} 1 to \2 are"),
        (rf"round ({VALUE}) is not planned: none is yet", r"{round} \1 is not planned: none is yet"),
        (rf"unknown agent ({VALUE})(.*)", r"unknown {agent} \1\2"),
        (rf"unknown arm ({VALUE})(.*)", r"unknown {arm} \1\2"),
        (rf"({VALUE}) goes there already in round (\d+)", r"\1 goes there already in {round} \2"),
        (r"no assignment is left: .*", "Nobody is left to go somewhere: too much is ruled out. Tick who is away, or allow a pair."),
        (r"there would be ([\d,]+) agents and ([\d,]+) arms: at most ([\d,]+) pairs of them",
         r"\1 {agents} and \2 {arms} are too many: the two numbers multiplied may come to \3"),
        (rf"the outcome of ({VALUE}) is ([\d,]+) successes of ([\d,]+) tests: .*", r"\2 of \3 cannot be: how many of the \3 {tests} found something?"),
        (rf"tests of ({VALUE}) is ([\d,]+), and ([\d,]+) planned: (.*)", r"\2 {tests} are many more than the \3 planned: \4"),
        (r"(\w+) goes by the length of the season: .*", "This way of planning needs to know the length of the season."),
        (r"the text has no lines after the first: .*", "there is only the first line, which names the columns"),
        (r"this is no CSV: .*", "a quotation mark is opened and not closed"),
    )
)  # fmt: skip
GOES_ON = (
    "unknown ",
    "{round} ",
    r"\1 goes there",
)  # how a message begins that stays as it was said
PLACE_PATTERN = re.compile(r"(?:\S+, )?(?:line|name) \d+: ")
QUOTED_PATTERN = re.compile(r"(?<!\w)(['\"])((?:(?!\1)[^\\]|\\.)*)\1(?!\w)")
LIBRARY_WORD_PATTERN = re.compile(r"\b(an? )?((?:agent|arm|round|test)s?)\b")
ESCAPED_PATTERN = re.compile(r"\\(.)")
PLAIN_WORDS = (
    ("false_positive_calibration", "false alarms"),
    ("false_positive_rate", "false alarms"),
    ("successes", "finds"),
)


def for_people(message: str, words: CampaignWords = DEFAULT_WORDS) -> str:
    """The message without field names, brackets and quotation marks of Python; the few that people often see in the words of a campaign.

    >>> for_people("line 3: sensitivity is 'high': a sensitivity is a probability in (0, 1]")
    'line 3: please give a number from 0 to 1 or a percentage, such as 0.85 or 85 %, not “high”'
    >>> for_people("name is '': a name is a text that is not blank")
    'Please give a name.'
    """
    place = PLACE_PATTERN.match(message)
    front, rest = (place[0], message[place.end() :]) if place else ("", message)
    for pattern, text in REWORDINGS:
        found = pattern.fullmatch(rest)
        if found:
            said = found.expand(text.format(**words.body, an_arm=words.an_arm))
            rest = said if front or text.startswith(GOES_ON) else said[:1].upper() + said[1:]
            break
    rest = QUOTED_PATTERN.sub(quote_for_people, rest)
    for word, plain in PLAIN_WORDS:  # but not the name of a column, which is quoted
        rest = re.sub(rf"(?<!“)\b{word}\b", plain, rest)
    return front + re.sub(r"\b1 (agent|arm)s\b", r"1 \1", rest)


def in_words(text: str, words: CampaignWords) -> str:
    """What the library says of its own, such as what a policy goes by, in the words of a campaign.

    >>> in_words("one index of an arm for all agents", CampaignWords(agent="ranger", agents="rangers", arm="floor", arms="floors"))
    'one index of a floor for all rangers'
    """
    known = words.body

    def said(found: re.Match[str]) -> str:
        word = known[found[2]]
        return with_article(word) if found[1] else word

    return LIBRARY_WORD_PATTERN.sub(said, text)


def quote_for_people(quoted: re.Match[str]) -> str:
    """A text that Python has quoted, in quotation marks of a page."""
    return "“" + ESCAPED_PATTERN.sub(r"\1", quoted[2]) + "”"
