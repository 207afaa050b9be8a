"""The page's plain functions, in the browser that runs them: files in pieces, figures as people read them."""

import csv
import io

import pytest


@pytest.fixture
def module(browser, demo_server):
    """Runs a function body with one of the page's modules, and gives what it returns."""
    browser.driver.get(demo_server.url)

    def run(name, body, *arguments):
        work = f"(async (m, ...given) => {{ {body} }})"
        script = f"""const [name, ...rest] = [...arguments].slice(0, -1);
        const done = arguments[arguments.length - 1];
        const loaded = import(new URL(`page/${{name}}.js`, location.href));
        loaded.then((m) => {work}(m, ...rest)).then(done, (e) => done(String(e)))"""
        return browser.driver.execute_async_script(script, name, *arguments)

    return run


IN_PIECES = """
const csv = await m.openCsv(new File([given[0]], "x.csv"), given[1]);
const texts = [];
for await (const { body } of csv.pieces(given[2] ?? undefined)) texts.push(await body.text());
return [csv.names, texts];
"""


def join(header, pieces):
    return header + "".join(piece.removeprefix(header) for piece in pieces)


@pytest.mark.parametrize("size", [4, 9, 16, 40, 1000])
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b\n1,2\n3,4\n", ["a", "b"]),
        ("a,b\r\n1,2\r\n3,4", ["a", "b"]),
        ('a;"b;c"\n1;"two\nlines"\n3;"say ""so"";"\n', ["a", "b;c"]),
        ('a,b\n1,5" pipe\n3,"y\nz,1"\n4,6" pipe\n', ["a", "b"]),
        ("\ufeffa\tb\n1\t2\n", ["a", "b"]),
        ("a\n", ["a"]),
        ("constructor,__proto__\n1,2\n", ["constructor", "__proto__"]),
    ],
)
def test_pieces_are_whole_records_and_make_up_the_file(module, text, names, size):
    found, pieces = module("csv", IN_PIECES, text, size)
    assert found == names
    text = text.removeprefix("\ufeff")  # as read from a Blob
    header = text[: text.index("\n") + 1]
    assert all(piece.startswith(header) for piece in pieces)
    assert join(header, pieces) == text
    for piece in pieces:  # no cell is cut in two
        assert len(list(csv.reader(io.StringIO(piece)))) > 1 or piece == header
        assert ('"y' in piece) == ('z,1"' in piece)


def test_a_piece_has_no_more_records_than_may_be_sent(module):
    text = "cylinders\n" + "8\n" * 250
    _, pieces = module("csv", IN_PIECES, text, 1 << 20, 100)
    assert [piece.count("8") for piece in pieces] == [100, 100, 50]
    assert join("cylinders\n", pieces) == text


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        ("m.number(20.0861)", "20.09"),
        ("m.number(-0.00004)", "\u22124.000e-5"),
        ("m.number(123456.7)", "123,457"),
        ("m.number(0)", "0"),
        ("m.asSent(-122.4194)", "\u2212122.4194"),
        ("m.asSent(20231234567)", "20231234567"),
        ("m.asSent('2020-01-01T10:30:00')", "2020-01-01 10:30:00"),
        ("m.asSent(null)", ""),
        ("m.percent(0.9961)", "> 99\u00a0%"),
        ("m.percent(1)", "100\u00a0%"),
        ("m.percent(0.001)", "< 1\u00a0%"),
        ("m.rarity(4.6)", "1 in 99"),
        ("m.rarity(20)", "rarer than 1 in a million"),
        ("m.alike([20.09, -1.698, 0.0036]).signed(0.0036)", "+0.00"),
        ("m.count(1, 'row')", "1 row"),
    ],
)
def test_figures_are_written_as_people_read_them(module, call, shown):
    assert module("format", f"return {call}") == shown


def test_remarks_of_parts_count_rows_of_the_whole_file_from_one(module):
    told = module(
        "remarks",
        """const remarks = m.gatherRemarks();
        remarks.add(["column 'a': clamped, in row 3", "column 'b' ignored"], 0);
        remarks.add(["column 'a': clamped, in row 0", "column 'c': unseen, in 12 rows: 0, 4, and 10 more"], 100);
        return remarks.list()""",
    )
    assert told == [
        "column 'a': clamped, in row 4; and further on",
        "column 'b' ignored",
        "column 'c': unseen, in 12 rows: 101, 105, and 10 more",
    ]
