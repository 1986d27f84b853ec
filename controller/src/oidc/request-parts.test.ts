import { describe, expect, test } from "vitest";
import { knownClient, readClient } from "./clients.ts";
import { type HostNames, issuerOf } from "./issuer.ts";
import { answerForm } from "./negotiation.ts";
import { knownScopes, Parameters } from "./parameters.ts";

describe("an issuer", () => {
  const names: HostNames = {
    exact: ["localhost", "127.0.0.1", "::1", "Ctrl.example", "*.served.example"],
    more: ["edge.example", "*.any.example"],
  };
  test.each([
    ["localhost", "https://localhost/oidc"],
    ["localhost:443", "https://localhost/oidc"],
    ["localhost:1280", "https://localhost:1280/oidc"],
    ["LOCALHOST:1280", "https://localhost:1280/oidc"],
    ["ctrl.example:65535", "https://ctrl.example:65535/oidc"],
    ["127.0.0.1:1", "https://127.0.0.1:1/oidc"],
    ["[::1]:1280", "https://[::1]:1280/oidc"],
    ["[::1]", "https://[::1]/oidc"],
    ["edge.example", "https://edge.example/oidc"],
    ["a.any.example:1", "https://a.any.example:1/oidc"],
  ])("for %s is %s", (host, issuer) => {
    expect(issuerOf(host, names)).toBe(issuer);
  });

  test.each([
    "",
    ":1280",
    "evil.example",
    "localhost.evil",
    "localhost.",
    "localhost:",
    "localhost:0",
    "localhost:65536",
    "localhost:080",
    "localhost:1280/x",
    "localhost:1280@evil",
    "user@localhost",
    "localhost evil",
    "localhost,evil",
    "[::1",
    "::1",
    "[::2]:1",
    // A wildcard of a certificate stands for no host; one of the operator for one label.
    "a.served.example",
    "*.served.example",
    "any.example",
    "a.b.any.example",
    ".any.example",
    "*.any.example",
  ])("is none for %j", (host) => {
    expect(issuerOf(host, names)).toBeUndefined();
  });
});

describe("the form of an answer", () => {
  test.each([
    [undefined, "json"],
    ["", "json"],
    ["*/*", "json"],
    ["application/json", "json"],
    ["APPLICATION/JSON", "json"],
    ["text/html", "page"],
    ["text/*", "page"],
    ["text/plain", "json"],
    ["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "page"],
    ["text/html;q=0.5, application/json;q=0.9", "json"],
    ["application/json;q=0, text/html", "page"],
    ["text/html;q=0, */*", "json"],
    ["application/json, text/html", "json"],
    ["application/*;q=0.2, text/html;q=0.3", "page"],
    ["text/html;q=x, */*;q=0.1", "json"],
  ])("for %j is %s", (accept, form) => {
    expect(answerForm(accept)).toBe(form);
  });

  test.each(["image/png", "application/xml", "*/*;q=0", "text/html;q=0", ","])("is none for %j", (accept) => {
    expect(() => answerForm(accept)).toThrow(expect.objectContaining({ status: 406 }));
  });
});

describe("parameters", () => {
  const sent = new Parameters(
    [
      ["a", "1"],
      ["b", ""],
      ["a", "2"],
    ],
    undefined,
    [
      ["c", "3"],
      ["b", ""],
      ["d", "4"],
    ],
  );

  test("come once; empty ones were not sent; a repeated one can be read as a list", () => {
    expect(sent.get("c")).toBe("3");
    expect(sent.get("b")).toBeUndefined();
    expect(sent.get("e")).toBeUndefined();
    expect(sent.all("a")).toEqual(["1", "2"]);
    for (const read of [() => sent.get("a"), () => sent.require("a"), () => sent.short("a", 9)]) {
      expect(read).toThrow(expect.objectContaining({ code: "invalid_request", message: "send a once" }));
    }
    expect(() => sent.require("b")).toThrow(expect.objectContaining({ code: "invalid_request" }));
  });

  test("in query and form count together", () => {
    expect(() => new Parameters([["x", "1"]], [["x", "1"]]).get("x")).toThrow(/send x once/);
  });

  test("have limits that say what is too long, and not what it was", () => {
    expect(sent.short("c", 1)).toBe("3");
    expect(() => new Parameters([["state", "secret"]]).short("state", 5)).toThrow(
      /^state is longer than 5 characters$/,
    );
  });

  test("scopes that mean nothing here are dropped", () => {
    expect(knownScopes("profile offline_access  email openid openid")).toEqual(["openid", "offline_access"]);
    expect(knownScopes("OPENID")).toEqual([]);
  });
});

describe("a client", () => {
  const form = (id?: string) => new Parameters(id === undefined ? [] : [["client_id", id]]);
  const basic = (text: string, encoding: "base64" | "base64url" = "base64") =>
    `Basic ${Buffer.from(text).toString(encoding)}`;

  test("is named by the form, by Basic authentication in either alphabet, or by both alike", () => {
    expect(readClient(form("native"), [])).toBe("native");
    expect(readClient(form(), [basic("native:")])).toBe("native");
    expect(readClient(form("openziti"), [basic("openziti:", "base64url")])).toBe("openziti");
    expect(readClient(form("openziti"), ["Bearer x", basic("openziti:").replace("Basic", "basic")])).toBe("openziti");
    expect(knownClient("openziti")).toBe("openziti");
  });

  test.each([
    ["none", form(), [], 400],
    ["a stranger", form("other"), [], 400],
    ["a name of a prototype", form("toString"), [], 400],
    ["a stranger by Basic", form(), [basic("other:")], 401],
    ["a password", form(), [basic("native:secret")], 401],
    ["a colon more", form(), [basic("native::")], 401],
    ["no colon", form("native"), [basic("native")], 401],
    ["another in the form", form("openziti"), [basic("native:")], 401],
    ["two at once", form("native"), [basic("native:"), basic("native:")], 401],
    ["no base64", form("native"), ["Basic n@tive"], 401],
  ])("is refused: %s", (_name, parameters, authorization, status) => {
    const challenge = status === 401 ? { "www-authenticate": 'Basic realm="openziti"' } : undefined;
    expect(() => readClient(parameters, authorization)).toThrow(
      expect.objectContaining({ status, code: "invalid_client", headers: challenge }),
    );
  });
});
