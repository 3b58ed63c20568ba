"""Writes the text that the charlm model learns: short tales and technical notes from a seeded grammar.

The words and sentence shapes are the project's own. Only Random.random() is used,
whose sequence is the same in every Python version, so a seed names one text.
"""
import random

NAMES = "Ada Bram Cora Dov Elin Fenn Greta Hugo Iris Jory Kaya Linus Mara Nils Olga Pim Quinn Rosa Sven Tove Una Vito Wren Yara".split()
ROLES = ["miller", "baker", "clockmaker", "ferryman", "weaver", "shepherd", "lamplighter", "mapmaker", "beekeeper", "glassblower", "cooper", "postman"]
ANIMALS = ["fox", "heron", "hedgehog", "goat", "raven", "otter", "badger", "old dog", "grey cat", "hare", "owl", "toad"]
PLACES = ["the mill", "the harbour", "a narrow valley", "the edge of the forest", "the salt marsh", "a house on the hill",
          "the far side of the river", "the village square", "a tower of red brick", "the orchard", "the north road", "the quarry"]
THINGS = ["a brass key", "a torn map", "a jar of honey", "a wooden spoon", "a lantern", "a silver bell", "a letter without a name",
          "a bag of seeds", "a broken clock", "a blue cup", "a coil of rope", "a small grey stone"]
WEATHER = ["rain fell all night", "the wind came from the east", "snow lay on the roofs", "the fog was thick", "the sun was hot",
           "frost covered the fields", "the river was high", "thunder rolled far away"]
TIMES = ["One morning", "Late in the autumn", "On the first day of spring", "After the harvest", "In the middle of the night",
         "Before the market opened", "At noon", "On a cold evening", "When the bells had stopped", "Three days later"]
ADJ = ["quiet", "clever", "stubborn", "patient", "cheerful", "tired", "proud", "careful", "hungry", "curious", "honest", "lazy"]
VERBS = ["carried", "found", "hid", "lost", "sold", "mended", "borrowed", "buried", "polished", "forgot", "guarded", "painted"]
FEEL = ["glad", "sorry", "ashamed", "surprised", "content", "worried", "angry", "proud"]
MORALS = ["What is shared is never lost.", "A slow hand makes a straight seam.", "Measure twice before you cut.", "He who counts the eggs should feed the hens.",
          "A small light is enough for one step.", "The river does not hurry, and it arrives.", "Better a plain truth than a pretty guess.",
          "Nobody is too old to ask the way.", "A promise weighs more than a stone.", "The door that squeaks is opened last."]
SAY = ["said", "asked", "whispered", "shouted", "answered", "thought"]
QUESTIONS = ["Where does this road go?", "Who left the gate open?", "How much is it worth?", "Have you seen my brother?", "What do you keep in that box?",
             "Why is the bridge closed?", "May I stay until morning?", "Is there any bread left?"]
REPLIES = ["Only the wind knows that.", "Ask me again tomorrow.", "It is worth what you would give for it.", "Nobody has come this way since Sunday.",
           "You may, if you carry the water.", "I do not sell it.", "Follow the wall and count the windows.", "There was, but the mice were faster."]

PARTS = ["pump", "valve", "sensor", "filter", "motor", "relay", "heater", "fan", "encoder", "bearing", "gearbox", "display"]
SYSTEMS = ["cooling loop", "north turbine", "test bench", "storage rack", "weather station", "conveyor", "drying oven", "water tower", "signal box", "print shop"]
UNITS = ["mm", "ms", "kPa", "volts", "degrees", "litres", "grams", "hertz"]
FAULTS = ["reads too high", "stops after a minute", "leaks at the seal", "hums at low speed", "loses its setting", "is slow to start", "drifts with heat", "answers twice"]
CAUSES = ["a loose wire", "dust in the housing", "a worn gasket", "an old firmware", "a wrong table", "a missing ground", "a swapped pair of pins", "a rounding error"]
FIXES = ["Replace the gasket", "Clean the contacts", "Tighten the two screws", "Load the new table", "Swap the cable", "Set the jumper to B", "Update the firmware", "Raise the limit by one step"]
QUANT = ["pressure", "voltage", "flow", "temperature", "speed", "weight", "delay", "current"]


class Grammar:
    """A stream of paragraphs decided by one seed."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def num(self, lo, hi):
        return lo + int(self.rng.random() * (hi - lo + 1))

    def one(self, words):
        return words[self.num(0, len(words) - 1)]

    def maybe(self, p):
        return self.rng.random() < p

    def tale(self):
        who, role, adj = self.one(NAMES), self.one(ROLES), self.one(ADJ)
        other = self.one([n for n in NAMES if n != who])
        thing, place, animal = self.one(THINGS), self.one(PLACES), self.one(ANIMALS)
        bare = thing.split(" ", 1)[1]
        out = [self.opening(who, role, adj, place), self.deed(who, thing, bare, place)]
        for _ in range(self.num(1, 4)):
            out.append(self.turn(who, other, bare, animal))
        out.append(self.ending(who, other, bare))
        return " ".join(out)

    def opening(self, who, role, adj, place):
        kind = self.num(0, 3)
        if kind == 0:
            return f"{who} was a {adj} {role} who lived near {place}."
        if kind == 1:
            return f"There was once a {role} called {who}, {adj} and {self.one(ADJ)}."
        if kind == 2:
            return f"{self.one(TIMES)} {who} the {role} walked to {place}, and {self.one(WEATHER)}."
        return f"In {self.num(2, 60)} years nobody at {place} had met a more {adj} {role} than {who}."

    def deed(self, who, thing, bare, place):
        kind = self.num(0, 2)
        if kind == 0:
            return f"{self.one(TIMES)} {who} {self.one(VERBS)} {thing} at {place}."
        if kind == 1:
            return f"Every day {who} {self.one(VERBS)} {thing}, but that year the {bare} was gone."
        return f"It began with {thing}: {who} {self.one(VERBS)} it while {self.one(WEATHER)}."

    def turn(self, who, other, bare, animal):
        kind = self.num(0, 4)
        if kind == 0:
            return f'"{self.one(QUESTIONS)}" {self.one(SAY)} {other}. "{self.one(REPLIES)}" {self.one(SAY)} {who}.'
        if kind == 1:
            return f"Then a {animal} came and looked at the {bare}, and {other} was {self.one(FEEL)}."
        if kind == 2:
            return f"{other} {self.one(VERBS)} the {bare} and went to {self.one(PLACES)} without a word."
        if kind == 3:
            return f"{self.one(TIMES)} {self.one(WEATHER)}; {who} waited {self.num(2, 12)} hours with the {animal}."
        return f"The {animal} only laughed, for it had {self.one(VERBS)} {self.one(THINGS)} long ago."

    def ending(self, who, other, bare):
        kind = self.num(0, 2)
        if kind == 0:
            return f"In the end {who} gave the {bare} to {other}, and both were {self.one(FEEL)}. {self.one(MORALS)}"
        if kind == 1:
            return f"So {who} went home {self.one(FEEL)}, and the {bare} is still there. {self.one(MORALS)}"
        return f"{self.one(MORALS)} That is why {who} still keeps the {bare}."

    def note(self):
        part, system, quant, unit = self.one(PARTS), self.one(SYSTEMS), self.one(QUANT), self.one(UNITS)
        out = [f"Note {self.num(100, 999)}: {part} of the {system}."]
        for _ in range(self.num(2, 4)):
            out.append(self.fact(part, system, quant, unit))
        if self.maybe(0.5):
            out.append(f"Checked by {self.one(NAMES)} and {self.one(NAMES)}, {self.num(1, 28)}/{self.num(1, 12)}.")
        return " ".join(out)

    def fact(self, part, system, quant, unit):
        kind, a = self.num(0, 5), self.num(2, 90)
        if kind == 0:
            return f"The {part} {self.one(FAULTS)} when the {quant} is above {a} {unit}."
        if kind == 1:
            return f"Cause: {self.one(CAUSES)}. {self.one(FIXES)} and test again."
        if kind == 2:
            return f"Measured {quant}: {a}.{self.num(0, 9)} {unit} (limit {a + self.num(1, 9)} {unit})."
        if kind == 3:
            return f"If the {self.one(PARTS)} {self.one(FAULTS)}, the {system} must be stopped first."
        if kind == 4:
            return f"{self.one(FIXES)}, then wait {self.num(2, 30)} minutes before you start the {part}."
        return f"Between {a} and {a + self.num(5, 9)} {unit} the {quant} is stable; do not use the {part} outside this range."

    def recipe(self):
        steps = [f"{i}. {self.one(FIXES)}." if self.maybe(0.5) else f"{i}. Read the {self.one(QUANT)} of the {self.one(PARTS)}."
                 for i in range(1, self.num(3, 5))]
        return f"How to reset the {self.one(SYSTEMS)}:\n" + "\n".join(steps)

    def paragraph(self):
        r = self.rng.random()
        return self.tale() if r < 0.6 else self.note() if r < 0.9 else self.recipe()


def corpus(seed, chars, seen=""):
    """Paragraphs, one blank line apart, up to exactly chars characters; none that occurs in seen."""
    grammar, out, size = Grammar(seed), [], 0
    while size < chars:
        p = grammar.paragraph()
        if p in seen:
            continue
        out.append(p)
        size += len(p) + 2
    text = "\n\n".join(out)[:chars]
    assert len(text) == chars and text.isascii()
    return text
