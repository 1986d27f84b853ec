import { describe, expect, it } from "vitest";
import { logSettings } from "./level.ts";
import { createLogger } from "./logging.ts";
import { readable } from "./readable.ts";
import { withoutSecrets } from "./secret-texts.ts";

function logged(write: (log: ReturnType<typeof createLogger>) => void): string {
  const lines: string[] = [];
  write(
    createLogger({
      level: "debug",
      destination: { write: (line: string) => void lines.push(line) },
      secretName: /^data$/,
    }),
  );
  return lines.join("");
}

const JWT = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl";
const KEY = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIGeheim\n-----END EC PRIVATE KEY-----\n";

describe("the log", () => {
  it("is one JSON object per line with level, time and message", () => {
    const line = logged((log) => log.info({ router: "r1", bytes: 12n, at: new Date(0) }, "router connected"));
    expect(line.endsWith("\n")).toBe(true);
    expect(JSON.parse(line)).toEqual({
      level: "info",
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      router: "r1",
      bytes: "12",
      at: "1970-01-01T00:00:00.000Z",
      msg: "router connected",
    });
  });

  it.each([
    "password",
    "currentPassword",
    "token",
    "sessionToken",
    "jwt",
    "enrollmentJwt",
    "keyPem",
    "secretKey",
    "authorization",
    "zt-session",
    "databaseUrl",
  ])("never shows what is called %s, however deep", (name) => {
    const text = logged((log) => log.warn({ [name]: "geheim", deep: [{ further: { [name]: "geheim" } }] }, "x"));
    expect(text).not.toContain("geheim");
    expect(text).toContain("[redacted]");
  });

  it("takes tokens, keys and passwords out of texts, also out of errors and their causes", () => {
    const secret = `${JWT} ${KEY} postgres://me:geheim@db/x Bearer geheim zt-session: geheim`;
    const error = new Error(`outer ${secret}`, { cause: Object.assign(new Error(secret), { token: "geheim" }) });
    const text = logged((log) => {
      log.error({ error, err: error, list: [secret], map: new Map([["a", secret]]) }, `failed: ${secret}`);
      log.info({ text: secret }, "b");
    });
    expect(text).not.toMatch(/geheim|Geheim|c2lnbmF0dXJl/);
    expect(text).toContain("outer");
    expect(text).toContain("postgres://me:[redacted]@db/x");
  });

  it("shows which columns violated a constraint, and not with what", () => {
    const error = Object.assign(new Error("duplicate key"), {
      code: "23505",
      detail: "Key (token, kind)=(geheim, x) already exists.",
    });
    const text = logged((log) => log.error({ error }, "x"));
    expect(text).not.toContain("geheim");
    expect(text).toContain("Key (token, kind)=([redacted]) already exists.");
  });

  it("shows nothing of a row that violated a constraint", () => {
    const detail = "Failing row contains (id, geheim, -----BEGIN\nGeheim, $argon2id$v=19$geheim).";
    const error = Object.assign(new Error('null value in column "name" violates not-null constraint'), { detail });
    const text = logged((log) => log.error({ error, text: `failed: ${detail}` }, "x"));
    expect(text).not.toMatch(/geheim|Geheim/);
    expect(text).toContain("Failing row contains ([redacted])");
    expect(text).toContain("null value in column");
  });

  it("takes names of fields that a program calls secret", () => {
    const text = logged((log) => log.info({ object: { kind: "Secret", data: { any: "geheim" } }, datagrams: 3 }, "x"));
    expect(text).not.toContain("geheim");
    expect(text).toContain('"datagrams":3');
  });

  it("shows errors by type, message, code and status, with their causes, and nothing else that a library attached", () => {
    const cause = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED", port: 1280 });
    const attached = { status: 503, reason: "Busy", body: "geheim", response: { text: "geheim" } };
    const error = Object.assign(new TypeError("no answer", { cause }), attached);
    const text = logged((log) => log.error({ err: error }, "x"));
    expect(text).not.toContain("geheim");
    expect(JSON.parse(text).err).toMatchObject({
      ...{ type: "TypeError", message: "no answer", status: 503, reason: "Busy" },
      cause: { type: "Error", message: "connect ECONNREFUSED", code: "ECONNREFUSED", port: 1280 },
    });
  });

  it("shows bytes as their number, and does not follow circles", () => {
    const circle: Record<string, unknown> = { key: Buffer.from("geheim") };
    circle.self = circle;
    const text = logged((log) => log.info(circle, "x"));
    expect(text).not.toContain("geheim");
    expect(text).toContain("6 bytes");
  });

  it.each([
    ["scheme", "a."],
    ["token", "eyJaaaaaaaa-"],
    ["token with parts", "eyJaaaaaaaa."],
    ["key", "-----BEGIN PRIVATE KEY "],
    ["URL", "a://b:"],
    ["header", "Bearer "],
  ])("costs no more than its length to look through, however often a %s seems to begin", (_what, unit) => {
    const text = unit.repeat(Math.ceil(200_000 / unit.length));
    const worked = (): number => process.threadCpuUsage().user / 1_000;
    const started = worked();
    withoutSecrets(text);
    expect(worked() - started).toBeLessThan(1_000);
  });

  it("finds a token within other text", () => {
    expect(withoutSecrets(`a.${JWT}.b x-${JWT} eyJ.a.b`)).toBe("a.[redacted].b x-[redacted] eyJ.a.b");
  });

  it("leaves what looks like no secret alone", () => {
    expect(withoutSecrets("https://ctrl.example:1280/edge?x=1 a@b.c tls:h:1")).toBe(
      "https://ctrl.example:1280/edge?x=1 a@b.c tls:h:1",
    );
    expect(logged((log) => log.info({ key: "entity-1", keys: 3, sessionId: "c1" }, "x"))).toContain(
      '"key":"entity-1","keys":3,"sessionId":"c1"',
    );
  });
});

function shown(colours: boolean, log: (logger: ReturnType<typeof createLogger>) => void): string {
  const parts: string[] = [];
  log(createLogger({ level: "debug", destination: readable((part) => void parts.push(part), { colours }) }));
  return parts.join("").replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME");
}

describe("the log for people", () => {
  it("is one line for people: time, level, message, fields", () => {
    expect(shown(false, (log) => log.info({ port: 1280, host: "a b", list: [1, "x"] }, "controller ready"))).toBe(
      'TIME INFO  controller ready port=1280 host="a b" list=[1,"x"]\n',
    );
  });

  it("paints levels on a terminal only", () => {
    expect(shown(true, (log) => log.warn({}, "x"))).toBe("\x1b[2mTIME\x1b[0m \x1b[33mWARN \x1b[0m x\n");
  });

  it("shows a stack below its line", () => {
    const text = shown(false, (log) => log.error({ error: new Error("it broke") }, "failed"));
    expect(text).toMatch(/^TIME ERROR failed error="it broke"\n {4}Error: it broke\n {4}at .*logging.test/);
  });

  it("hides secrets, and what would steer the terminal", () => {
    const text = shown(false, (log) =>
      log.info({ token: "geheim", peer: "a\x1b[2Jb", line: "a\nb", order: "a\u202eb" }, "m\x1b]0;x\x07n"),
    );
    expect(text).toBe('TIME INFO  m?]0;x?n token=[redacted] peer=a?[2Jb line="a b" order=a?b\n');
  });
});

describe("the settings of the log", () => {
  it("are info and auto by default, and debug by --verbose", () => {
    expect(logSettings({})).toEqual({ level: "info", format: "auto" });
    expect(logSettings({ SALLYPORT_LOG_LEVEL: "warn", SALLYPORT_LOG_FORMAT: "text" })).toEqual({
      level: "warn",
      format: "text",
    });
    expect(logSettings({ SALLYPORT_LOG_LEVEL: "warn" }, { verbose: true }).level).toBe("debug");
  });

  it.each([
    [{ SALLYPORT_LOG_LEVEL: "loud" }, 'SALLYPORT_LOG_LEVEL must be one of debug, info, warn, error, found "loud"'],
    [{ SALLYPORT_LOG_FORMAT: "xml" }, 'SALLYPORT_LOG_FORMAT must be one of auto, json, text, found "xml"'],
  ])("refuse %o", (env, message) => {
    expect(() => logSettings(env)).toThrow(message);
  });
});
