#!/usr/bin/env python3
"""Lines to tokenize, and the ids that Hugging Face's `tokenizers` gives for them.

    pip install tokenizers==0.23.3
    python3 tests/tokenizer/make_lines.py sample tests/data/tokenizer      the committed sample
    python3 tests/tokenizer/make_lines.py full FOLDER VOCAB.TXT            some millions of lines (2 GB)
    python3 tests/tokenizer/make_lines.py added FOLDER [COUNT]             COUNT (300) tokenizers whose added tokens overlap, with
                                                                           all flags, 100 lines each

Each writes folders of one tokenizer each, with lines.txt and ids.txt beside the tokenizer's own files;
`test_tokenizer --compare FOLDER/lines.txt FOLDER/ids.txt FOLDER` compares them.

A line is "max_tokens<TAB>text" or "max_tokens<TAB>text<TAB>pair", with \\xNN for control bytes, bytes that are not UTF-8
and the backslash. Its ids are "id id ..." or, for a pair, "id id ...<TAB>types" with a digit a type.
"""
import json
import os
import random
import sys

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

SPECIALS = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]

# Our own sentences in 26 scripts, which tests/tokenizer_scripts.h counts in the samples.
LANGUAGES = [
    "The old ferry leaves at half past nine; don't be late, or you'll wait until Tuesday.",
    "Wir haben gestern fünf Äpfel, süßes Gebäck und Öl gekauft – für nur 7,50 €!",
    "L'été dernier, ma sœur a peint la façade du château à côté d'une forêt très âgée.",
    "¿Dónde está el niño que perdió su pingüino de peluche? ¡Nadie lo sabe!",
    "Вчера ёжик нашёл под старой ёлкой тёплый шарф; чей он — неизвестно.",
    "昨天下午三点，我和朋友在河边喝茶，看见一条小船慢慢漂过。",
    "きのう、ガラスのコップを三つ買いました。パーティーは「土曜日」です。",
    "어제 시장에서 싱싱한 딸기와 따뜻한 호떡을 샀어요. 정말 맛있었답니다!",
    "ذَهَبَ الطِّفلُ إلى المدرسةِ صباحًا، ثمَّ عادَ قبلَ الظُّهرِ بكتابٍ جديدٍ.",
    "कल मैंने बाज़ार से ताज़ा फल खरीदे, और माँ ने स्वादिष्ट खीर बनाई।",
    "İstanbul'da yağmurlu bir günde ILIK çay içtik; ışıklar güzeldi.",
    "Το πρωί ήπιαμε καφέ δίπλα στη θάλασσα· ο ΟΔΥΣΣΕΑΣ κοιμόταν.",
    "Sáng nay trời mưa to, bà tôi vẫn đi chợ mua rau muống và cá tươi.",
    "เมื่อวานนี้แมวของฉันนอนทั้งวันบนเก้าอี้ตัวเก่า ไม่ยอมกินข้าวเลย",
    "אתמול קנינו לחם טרי וזיתים שחורים בשוק, וְאָכַלְנוּ בַּגַּן.",
    "Příliš žluťoučký kůň? Ne: jen zvědavá kočka skočila přes plot.",
    "গতকাল বৃষ্টির পরে নদীর ধারে আমরা গরম চা খেয়েছিলাম।",
    "நேற்று மாலை கடற்கரையில் குழந்தைகள் பட்டம் விட்டார்கள்.",
    "👩‍👩‍👧‍👦 went to the 🏖️ with 2️⃣ 🇳🇱 flags and 👍🏽; ①②③ ﬁne ½ ™.",
    "გუშინ ბაზარში ვიყიდე ყურძენი, ნიგოზი და ახალი პური.",
    "Երեկ երեկոյան մենք միասին թեյ խմեցինք պարտեզում։",
    "ትናንት ማታ ዝናብ ዘነበ፤ ዛሬ ግን ፀሐይ ወጥታለች።",
    "ម្សិលមិញយើងបានទៅផ្សារទិញត្រីនិងបន្លែស្រស់។",
    "မနေ့က ကျွန်တော်တို့ ဈေးကို သွားပြီး ငါး ဝယ်ခဲ့တယ်။",
    "ཁ་སང་ང་ཚོ་ཚོང་ཁང་ལ་ཕྱིན་པ་ཡིན།",
    "నిన్న సాయంత్రం పిల్లలు తోటలో ఆడుకున్నారు.",
    "ગઈકાલે અમે નદી કિનારે ચાલવા ગયા હતા.",
    "ಮಕ್ಕಳು ನಿನ್ನೆ ಶಾಲೆಯಲ್ಲಿ ಹಾಡು ಹಾಡಿದರು.",
    "ഇന്നലെ വൈകുന്നേരം കുട്ടികൾ കടൽത്തീരത്ത് കളിച്ചു.",
    "ਕੱਲ੍ਹ ਅਸੀਂ ਖੇਤ ਵਿੱਚ ਕਣਕ ਬੀਜੀ ਸੀ।",
    "ມື້ວານນີ້ພວກເຮົາໄປຕະຫຼາດຊື້ປາ.",
    "ඊයේ අපි මුහුදු වෙරළේ ඇවිද ගියෙමු.",
    "ｆｕｌｌ　ｗｉｄｔｈ　ｔｅｘｔ，　ｶﾞｷﾞｸﾞ ㍿ ㎏ ⅷ ½ ﬃ x² ™ … ‥ ﷺ",
]
MARKS = [0x300, 0x301, 0x308, 0x30A, 0x323, 0x327, 0x328, 0x345, 0x34F, 0x5B0, 0x64B, 0x651, 0x93C, 0x94D, 0xE38, 0xF71,
         0x8D4, 0x1B44, 0x1BAA, 0x1DFB, 0x302E, 0x302F, 0xA953, 0x11446, 0x1134D, 0x1D165, 0x1D16D, 0x1D16E, 0x1E000,
         0x1E944, 0x1E94A, 0x20D0, 0x20DD, 0x1AC1, 0x1DF6, 0x10EAB, 0xFE0F, 0x3099, 0x302A, 0x1D242]
SPACES = [0x9, 0xA, 0xB, 0xC, 0xD, 0x1C, 0x1F, 0x20, 0x85, 0xA0, 0x1680, 0x180E, 0x2000, 0x2003, 0x200A, 0x200B, 0x200C,
          0x200D, 0x2028, 0x2029, 0x202F, 0x205F, 0x2060, 0x3000, 0xFEFF]
ODD = [0x0, 0x1, 0x7F, 0x80, 0x9F, 0xAD, 0xB7, 0xD7, 0xDF, 0x130, 0x131, 0x149, 0x1C5, 0x1F0, 0x345, 0x37E, 0x387, 0x390, 0x3A3,
       0x3C2, 0x3F4, 0x587, 0x600, 0x6DD, 0x890, 0x8E2, 0x110BD, 0x110CD, 0x13430, 0xE01, 0xF43, 0xF77, 0xFB2, 0x10A0,
       0x10FC, 0x1100, 0x1161, 0x11A8, 0x13A0, 0x166D, 0x1734, 0x1C80, 0x1C89, 0x1C90, 0x1E9B, 0x1E9E, 0x1F80, 0x1FB3, 0x1FEF,
       0x2010, 0x2126, 0x212A, 0x212B, 0x2160, 0x24B6, 0x2C2F, 0x2E52, 0x2F00, 0x2FFF, 0x3131, 0x3400, 0x4DBF, 0x4E00, 0x9FFF,
       0xA640, 0xA7CB, 0xA7CC, 0xA7CE, 0xA7D2, 0xA7D4, 0xA7DA, 0xA7DC, 0xAB70, 0xAC00, 0xD7A3, 0xE000, 0xF900, 0xFA0E, 0xFA11,
       0xFAD9, 0xFB1D, 0xFB2C, 0xFDD0, 0xFF21, 0xFF01, 0xFFFD, 0xFFFF, 0x10400, 0x10570, 0x105C9, 0x105E4, 0x10C80, 0x10D50,
       0x10D65, 0x10EAD, 0x1109A, 0x1112E, 0x111C9, 0x11383, 0x11385, 0x1144B, 0x114BB, 0x118A0, 0x11938, 0x16EA0, 0x16EB8,
       0x16121, 0x16D68, 0x16E40, 0x1BC9D, 0x1D15E, 0x1D1BB, 0x1D400, 0x1E900, 0x1F130, 0x1F600, 0x20000, 0x2A6DF, 0x2A700,
       0x2B73F, 0x2B740, 0x2B81F, 0x2B820, 0x2B91F, 0x2B920, 0x2CEAF, 0x2CEB0, 0x2EBF0, 0x2F800, 0x2FA1D, 0x2FA20, 0x30000,
       0x323AF, 0xE0001, 0xE0100, 0xF0000, 0x10FFFD, 0x10FFFF]
LOOKALIKES = ["[MASK]", "[SEP]", "[CLS]", "[PAD]", "[UNK]", "[mask]", "[MASK", "MASK]", "[ MASK ]", "[[MASK]]", "[SEP][SEP]",
              "x[SEP]y", "[MA\u0301SK]", "[M\u200bASK]", "[\uff2d\uff21\uff33\uff2b]", "##ing", "## ing", "#", "[unused1]",
              "[UNK][MASK]z", "\u00e9[CLS]\u0301a", "[SEP]\u0301", "a\u0301[MASK]\u0301", "[CLS", "]", "["]
SCALARS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def escape(data):
    try:
        text = data.decode("utf-8")
        return "".join(c if c >= " " and c not in "\\\x7f" else f"\\x{ord(c):02x}" for c in text)
    except UnicodeDecodeError:
        return "".join(chr(b) if 32 <= b < 127 and b != 92 else f"\\x{b:02x}" for b in data)


class Maker:
    """Random texts; every one depends on the seed alone."""

    def __init__(self, seed, pool):
        self.r = random.Random(seed)
        self.pool = pool  # characters to mix

    def scalar(self):
        return chr(self.r.choice(self.pool))

    def char(self):
        r = self.r
        kind = r.random()
        if kind < 0.3:
            return r.choice("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
        if kind < 0.4:
            return chr(r.choice(SPACES))
        if kind < 0.5:
            return chr(r.choice(MARKS))
        if kind < 0.6:
            return chr(r.choice(ODD))
        if kind < 0.66:
            return r.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
        if kind < 0.7:
            return chr(r.randrange(0xAC00, 0xD7A4))
        if kind < 0.74:
            return chr(r.randrange(0x4E00, 0xA000))
        if kind < 0.76:
            return chr(r.randrange(0x1F300, 0x1FAFF))
        return self.scalar()

    def mixture(self):
        return "".join(self.char() for _ in range(self.r.randrange(1, 40)))

    def marks(self):
        """Marks in any order on a letter: what canonical ordering is about."""
        r = self.r
        return "".join(r.choice("aeoAEO\u0b95\u1100\U0001d158") + "".join(chr(r.choice(MARKS)) for _ in range(r.randrange(9)))
                       for _ in range(r.randrange(1, 5)))

    def long_word(self):
        """About 100 characters, where WordPiece gives up."""
        r = self.r
        letter = r.choice(["a", "\u00e9", "e\u0301", "\u0301", "in", "\u0434", "\ud55c", "\u4e2d", "\U00010400", "\u0130"])
        return r.choice(["", "un", "\u00e0 "]) + letter * (r.choice([1, 49, 50, 98, 99, 100, 101, 102, 200])) + r.choice(["", "s", "."])

    def special(self):
        r = self.r
        return "".join(r.choice([r.choice(LOOKALIKES), " ", self.char(), "word"]) for _ in range(r.randrange(1, 8)))

    def language(self):
        r = self.r
        text = r.choice(LANGUAGES)
        kind = r.random()
        if kind < 0.3:
            return text
        if kind < 0.5:
            return r.choice([text.upper(), text.lower(), text.swapcase(), text.replace(" ", "")])
        if kind < 0.8:
            a, b = sorted(r.randrange(len(text) + 1) for _ in range(2))
            return text[a:b]
        at = r.randrange(len(text) + 1)
        return text[:at] + self.char() + r.choice(LANGUAGES)[at:]

    def broken(self):
        """Bytes that are UTF-8 here and there."""
        r = self.r
        if r.random() < 0.5:
            return bytes(r.choice([r.randrange(256), r.randrange(128), 0xE2, 0xF0, 0x80, 0xBF, 0xED, 0xC3]) for _ in range(r.randrange(1, 25)))
        data = bytearray(self.mixture().encode("utf-8"))
        for _ in range(r.randrange(1, 4)):
            at = r.randrange(len(data) + 1)
            if r.random() < 0.5:
                data[at:at + 1] = b""
            else:
                data.insert(at, r.randrange(256))
        return bytes(data)

    def any(self):
        made = self.r.choice([self.mixture, self.mixture, self.marks, self.long_word, self.special, self.language, self.broken])()
        return made if isinstance(made, bytes) else made.encode("utf-8")

    def line(self):
        """(max_tokens, text, pair or None)"""
        r = self.r
        pair = None
        if r.random() < 0.2:
            pair = self.any() if r.random() < 0.9 else b""
        limit = r.choice([3, 4, 5, 6, 7, 8, 10, 16, 31, 64]) if r.random() < 0.3 else 0
        return limit, self.any(), pair


def encode_all(tokenizer, lines):
    """Yields (line, ids) in order."""
    for start in range(0, len(lines), 20000):
        part = lines[start:start + 20000]
        found = [None] * len(part)
        for limit in sorted({line[0] for line in part}):
            if limit:
                tokenizer.enable_truncation(limit, strategy="longest_first")
            else:
                tokenizer.no_truncation()
            at = [i for i, line in enumerate(part) if line[0] == limit]
            texts = [part[i][1].decode("utf-8", "replace") if part[i][2] is None else
                     tuple(t.decode("utf-8", "replace") for t in part[i][1:]) for i in at]
            for i, encoding in zip(at, tokenizer.encode_batch(texts)):
                ids = " ".join(map(str, encoding.ids))
                found[i] = ids if part[i][2] is None else ids + "\t" + "".join(map(str, encoding.type_ids))
        yield from zip(part, found)


def write(folder, tokenizer, lines, files):
    os.makedirs(folder, exist_ok=True)
    for name, content in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8", newline="") as f:
            f.write(content)
    with open(os.path.join(folder, "lines.txt"), "w", encoding="utf-8", newline="\n") as out, \
            open(os.path.join(folder, "ids.txt"), "w", newline="\n") as ids:
        for (limit, text, pair), found in encode_all(tokenizer, lines):
            out.write(f"{limit}\t{escape(text)}" + ("" if pair is None else f"\t{escape(pair)}") + "\n")
            ids.write(found + "\n")
    print(f"{folder}: {len(lines)} lines")


def bert(vocabulary, lower=True, strip=None, chinese=True):
    """What BertTokenizerFast makes of a vocab.txt."""
    ids = {token: i for i, token in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=chinese, strip_accents=strip, lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])])
    tokenizer.add_special_tokens([t for t in SPECIALS if t in ids])
    return tokenizer


def config(lower, strip, chinese):
    return json.dumps({"do_lower_case": lower, "strip_accents": strip, "tokenize_chinese_chars": chinese,
                       "model_max_length": 1000000000000000019884624838656, "tokenizer_class": "BertTokenizer"}) + "\n"


VARIANTS = [("uncased", True, None, True), ("cased", False, None, True), ("cased_stripped", False, True, True),
            ("accents", True, False, True), ("whole_ideographs", True, None, False)]


def unusual(characters):
    """A tokenizer.json with every setting other than usual: nothing cleaned, added tokens with all flags."""
    vocabulary = ["[unk]", "<s>", "</s>", "[MASK]", "day", "Day", "@@day", "mid", "@@ s"]
    vocabulary += [chr(c) for c in characters if c] + ["@@" + chr(c) for c in characters if c]
    ids = {}
    for token in vocabulary:
        ids.setdefault(token, len(ids))
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[unk]", max_input_chars_per_word=20, continuing_subword_prefix="@@"))
    tokenizer.normalizer = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("</s>", ids["</s>"]), ("<s>", ids["<s>"]))
    tokenizer.add_special_tokens(["<s>", "</s>", AddedToken("[MASK]", lstrip=True, normalized=False),
                                  AddedToken("<r>", rstrip=True, normalized=False), AddedToken("<both>", lstrip=True, rstrip=True),
                                  AddedToken("<rb>", rstrip=True), AddedToken(" <r", lstrip=True)])
    tokenizer.add_tokens([AddedToken("Word", single_word=True, normalized=False), AddedToken("K\u00f6ln", normalized=True),
                          AddedToken("two Parts", normalized=True, single_word=True), AddedToken("wor", normalized=True),
                          AddedToken("\u00dcber ", normalized=True, lstrip=True, rstrip=True), AddedToken("mid", normalized=False)])
    return tokenizer


def unusual_lines(maker, count, characters):
    r = maker.r
    parts = ["<s>", "</s>", "[MASK]", "<r>", "<both>", "<rb>", " <r", "Word", "word", "K\u00f6ln", "koln", "KOLN", "two Parts", "TWO  parts",
             "two parts", "wor", "worst", "\u00dcber ", "uber", "mid", "MID", "day", "Day", "s", " ", "  ", "\t", "\n", "\u3000", ".", "-", "_"]

    def text():
        return "".join(r.choice(parts) if r.random() < 0.7 else
                       chr(r.choice(characters)) if r.random() < 0.6 else maker.char() for _ in range(r.randrange(1, 14)))

    lines = []
    for _ in range(count):
        made = text().encode("utf-8") if r.random() < 0.9 else maker.any()
        lines.append((r.choice([0, 0, 0, 3, 6, 12]), made, text().encode("utf-8") if r.random() < 0.15 else None))
    # What counts as a word character beside "Word"; each of these has its own class in some version of Unicode.
    return lines + [(0, f"{chr(c)}Word Word{chr(c)} {chr(c)}".encode("utf-8"), None) for c in characters]


def sample(folder):
    with open(os.path.join(folder, "vocab.txt"), encoding="utf-8", newline="\n") as f:
        vocabulary = f.read().split("\n")[:-1]
    fixed = [(0, t.encode("utf-8"), None) for t in LANGUAGES + LOOKALIKES + ["", " ", "\u0301"]]
    fixed += [(0, chr(c).encode("utf-8"), None) for c in ODD + SPACES + MARKS]
    fixed += [(limit, LANGUAGES[0].encode(), LANGUAGES[n].encode("utf-8")) for limit in (3, 4, 9, 10, 20, 40) for n in (1, 7)]
    fixed += [(0, "".join(map(chr, ODD[i:i + 5])).encode("utf-8"), None) for i in range(0, len(ODD), 5)]
    for index, (name, lower, strip, chinese) in enumerate(VARIANTS):
        maker = Maker(name, SCALARS)
        lines = (fixed if index == 0 else []) + [maker.line() for _ in range(700 if index == 0 else 170)]
        write(os.path.join(folder, name), bert(vocabulary, lower, strip, chinese), lines,
              {"tokenizer_config.json": config(lower, strip, chinese)})
    characters = sorted(set(ODD + MARKS + SPACES + [ord(c) for t in LANGUAGES for c in t] + list(range(0x21, 0x7F))))
    tokenizer = unusual(characters)
    write(os.path.join(folder, "unusual"), tokenizer, unusual_lines(Maker("unusual", characters), 500, characters),
          {"tokenizer.json": tokenizer.to_str()})


def full(folder, vocab_txt):
    with open(vocab_txt, encoding="utf-8", newline="\n") as f:
        real = f.read().split("\n")[:-1]
    # In this vocabulary every character has an id of its own, at a word's begin and inside: nothing hides behind [UNK].
    every = SPECIALS + [t for c in SCALARS if not chr(c).isspace() for t in (chr(c), "##" + chr(c))]
    for label, vocabulary in (("real", real), ("every", every)):
        for name, lower, strip, chinese in VARIANTS:
            maker = Maker(label + name, SCALARS)
            lines = [(0, (chr(c)).encode("utf-8"), None) for c in SCALARS] if name in ("uncased", "cased") else []
            lines += [(0, f"a{chr(c)}b {chr(c)}{chr(c)}".encode("utf-8"), None) for c in SCALARS]
            shuffled = SCALARS[:]
            maker.r.shuffle(shuffled)
            lines += [(0, "".join(map(chr, shuffled[i:i + 16])).encode("utf-8"), None) for i in range(0, len(shuffled), 16)]
            lines += [(0, f"{chr(c)}\u0327\u0301{chr(c)}\u302e\u1d165{chr(c)}".encode("utf-8"), None) for c in shuffled[::4]]
            lines += [maker.line() for _ in range(150000)]
            files = {"vocab.txt": "\n".join(vocabulary) + "\n", "tokenizer_config.json": config(lower, strip, chinese)}
            write(os.path.join(folder, f"{label}_{name}"), bert(vocabulary, lower, strip, chinese), lines, files)
    assigned = [c for c in SCALARS if c < 0x3400 or 0xA000 <= c < 0xAC20 or 0xF900 <= c < 0x17000 or 0x1B000 <= c < 0x20000]
    tokenizer = unusual(assigned)
    lines = unusual_lines(Maker("unusual", assigned), 200000, assigned)
    lines += [(0, f"{chr(c)}Word Word{chr(c)}".encode("utf-8"), None) for c in SCALARS]
    write(os.path.join(folder, "unusual"), tokenizer, lines, {"tokenizer.json": tokenizer.to_str()})


def overlapping(r):
    """Few characters, so that added tokens begin, end and continue each other; long words, with pieces that do."""
    letters = ["a", "b", "A", "-", ".", " ", "_", "\u00e9", "e\u0301", "\u4e2d", "\u00df"]
    words = ["[UNK]", "[CLS]", "[SEP]"] + [t + c for t in ("", "##") for c in letters if c.isalpha() and r.random() < 0.8]
    words += [r.choice(["", "##"]) + "".join(r.choice("aab") for _ in range(r.randrange(1, 12))) for _ in range(12)]
    words.append("##" + "a" * r.randrange(2, 150) + r.choice(["b", ""]))
    ids = {}
    for word in words:
        ids.setdefault(word, len(ids))
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=r.choice([5, 100, 101, 400, 5000])))
    tokenizer.normalizer = normalizers.BertNormalizer(clean_text=r.random() < 0.7, handle_chinese_chars=r.random() < 0.7,
                                                      strip_accents=r.choice([None, True, False]), lowercase=r.random() < 0.7)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    contents, added = [], []
    for _ in range(r.randrange(1, 14)):
        kind = r.random()
        content = ("".join(r.choice(letters) for _ in range(r.randrange(1, 7))) if kind < 0.5 or not contents else
                   r.choice("-a ") * r.choice([1, 2, 3, 5, 17, 1500]) if kind < 0.65 else
                   r.choice(contents)[:r.randrange(1, 5)] if kind < 0.75 else
                   r.choice(contents)[-r.randrange(1, 5):] if kind < 0.85 else r.choice(contents) + r.choice(letters))
        contents.append(content)
        flags = {key: r.random() < 0.3 for key in ("single_word", "lstrip", "rstrip")}
        token = AddedToken(content, normalized=r.random() < 0.5, special=r.random() < 0.5, **flags)
        # One of which normalization leaves nothing is refused here.
        if not token.normalized or tokenizer.normalizer.normalize_str(content):
            added.append(token)
    for token in added:
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    # As a file has them: what is added twice is there once.
    return Tokenizer.from_str(tokenizer.to_str()), contents, letters


def overlapping_lines(r, contents, letters, count):
    def text():
        parts = [r.choice(contents) if r.random() < 0.6 else r.choice(letters) * r.choice([1, 1, 2, 3, 30]) for _ in range(r.randrange(1, 10))]
        if r.random() < 0.1:
            parts.append(r.choice(["a", "ab", "-"]) * r.choice([50, 101, 150, 1100]) + r.choice(["", "b", "-"]))
        r.shuffle(parts)
        return "".join(parts)

    return [(r.choice([0, 0, 0, 3, 6, 12]), text().encode("utf-8"), text().encode("utf-8") if r.random() < 0.1 else None) for _ in range(count)]


def accepted(tokenizer, lines):
    """Without those at which that library panics: white space that one token swallows and that another one begins with."""
    kept = []
    for line in lines:
        try:
            for text in line[1:]:
                tokenizer.encode((text or b"").decode("utf-8", "replace"))
            kept.append(line)
        except BaseException as error:  # noqa: B036 - pyo3's PanicException is no Exception
            if type(error).__name__ != "PanicException":
                raise
    return kept


def added(folder, count):
    for n in range(count):
        r = random.Random(f"added{n}")
        tokenizer, contents, letters = overlapping(r)
        lines = accepted(tokenizer, overlapping_lines(r, contents, letters, 100))
        write(os.path.join(folder, str(n)), tokenizer, lines, {"tokenizer.json": tokenizer.to_str()})


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "sample":
        sample(sys.argv[2])
    elif len(sys.argv) == 4 and sys.argv[1] == "full":
        full(sys.argv[2], sys.argv[3])
    elif len(sys.argv) in (3, 4) and sys.argv[1] == "added":
        added(sys.argv[2], int(sys.argv[3]) if len(sys.argv) == 4 else 300)
    else:
        sys.exit(__doc__)
