import { expect, test } from "vitest";
import type { Conversation } from "../api";
import { chipsOf, matches, readFilters } from "./filters";
import { marked } from "./marked";

const one = { title: "Fix the Parser", friendly_id: "parser_fix_ab12", conversation_id: "c", cost_usd: 0.5, started_at: "2026-03-02T10:00:00Z" } as Conversation;
const filters = (query: string) => readFilters(new URLSearchParams(query));

test("words match title and name in any order and case", () => {
  expect(matches(one, filters("q=PARSER fix"))).toBe(true);
  expect(matches(one, filters("q=ab12"))).toBe(true);
  expect(matches(one, filters("q=lexer"))).toBe(false);
  expect(matches(one, filters("cost=0.6"))).toBe(false);
});

test("a conversation is of every day on which it ran", () => {
  expect(matches(one, filters("since=2026-03-05&until=2026-03-05"))).toBe(true);
  expect(matches(one, filters("since=2026-03-01&until=2026-02-28"))).toBe(false);
});

test("days become times and nonsense becomes nothing", () => {
  expect(filters("since=2026-03-01&until=2026-03-01")).toMatchObject({ isAny: true });
  expect(filters("since=x&cost=-3")).toEqual({ text: "", model: "", agent: "", project: "", since: null, until: null, cost: 0, isAny: false });
});

test("found words are marked, and patterns are words", () => {
  expect(marked("a Leap year", "leap")).toEqual([
    { text: "a ", isFound: false },
    { text: "Leap", isFound: true },
    { text: " year", isFound: false },
  ]);
  expect(marked("a.b", '"." (')[1]).toEqual({ text: ".", isFound: true });
  expect(marked("x", "")).toEqual([{ text: "x", isFound: false }]);
});

test("filters are chips, and a day is one", () => {
  const texts = (query: string) => chipsOf(new URLSearchParams(query)).map((chip) => chip.text);
  expect(texts("q=parser")).toEqual([]);
  expect(texts("since=2026-03-01&until=2026-03-01&model=opus")).toEqual(["on 2026-03-01", "model opus"]);
  expect(texts("since=2026-03-01&cost=2&project=site&agent=")).toEqual(["since 2026-03-01", "from $2", "project site"]);
});
