import type { Logger } from "@sallyport/wire";
import { beforeEach, describe, expect, it } from "vitest";
import { Outage } from "./outage.ts";

const AWAY = "error: the database cannot be used: requests are answered with 503 until it is back";
const BACK = "info: the database can be used again";

describe("an outage", () => {
  let said: string[];
  let outage: Outage;
  const lost = () => Object.assign(new Error("write EPIPE"), { code: "EPIPE" });
  beforeEach(() => {
    said = [];
    const note = (level: string) => (_fields: object, text: string) => void said.push(`${level}: ${text}`);
    const log: Logger = { debug: note("debug"), info: note("info"), warn: note("warn"), error: note("error") };
    outage = new Outage(log);
  });

  it("is said once when it begins and once when it ends, whatever fails in between", () => {
    outage.failed(lost(), outage.turn);
    outage.failed(lost(), outage.turn);
    expect(outage.since).toBeInstanceOf(Date);
    outage.answered(outage.turn);
    outage.answered(outage.turn);
    expect(outage.since).toBeUndefined();
    outage.failed(lost(), outage.turn);
    expect(said).toEqual([AWAY, BACK, AWAY]);
  });

  it("is not ended by an answer that was asked for before it", () => {
    const { turn } = outage;
    outage.failed(lost(), turn);
    outage.answered(turn);
    expect(said).toEqual([AWAY]);
  });

  it("does not begin again with what was asked before its end and fails after it", () => {
    const before = outage.turn;
    outage.failed(lost(), before);
    const during = outage.turn;
    outage.answered(during);
    expect(outage.failed(lost(), before)).toMatchObject({ name: "DatabaseUnavailableError" });
    outage.failed(lost(), during);
    expect(outage.since).toBeUndefined();
    expect(said).toEqual([AWAY, BACK]);
  });

  it("is none when the database refuses a statement", () => {
    const refused = Object.assign(new Error("duplicate key"), { code: "23505" });
    expect(outage.failed(refused, outage.turn)).toBe(refused);
    expect(said).toEqual([]);
  });
});
