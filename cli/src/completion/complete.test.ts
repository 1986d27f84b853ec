import { describe, expect, it } from "vitest";
import { testContext } from "../testing/test-context.ts";
import { complete } from "./complete.ts";
import { unquoted } from "./shell-words.ts";

async function offered(...words: string[]): Promise<string[]> {
  // No network: names of entities are none, and nothing is said of it.
  const context = testContext({ SALLYPORT_CONFIG_DIR: "/nonexistent/sallyport" });
  await complete(words, context);
  expect(context.errors()).toBe("");
  return context
    .output()
    .split("\n")
    .slice(0, -1)
    .map((line) => line.split("\t", 1)[0] ?? "");
}

describe("completion", () => {
  it.each([
    [["ge"], ["get"]],
    [
      ["help", "exp"],
      ["export", "explain"],
    ],
    [["nonsense", ""], []],
    [["get", "service-p"], ["service-policies"]],
    [
      ["create", "service"],
      ["service", "service-edge-router-policy", "service-policy"],
    ],
    [["delete", "cir"], ["circuit"]],
    [["create", "cir"], []],
    [
      ["explain", "sp.t"],
      ["sp.tags", "sp.type"],
    ],
    [
      ["get", "services", "-o", "j"],
      ["json", "jsonpath="],
    ],
    [["get", "services", "--output", "ya"], ["yaml"]],
    [["get", "services", "--fil"], ["--filter"]],
    [
      ["create", "sp", "dial", "--type", ""],
      ["Dial", "Bind"],
    ],
    [["create", "sp", "dial", "--service-roles", "#"], ["#all"]],
    [["create", "-n", "other", "service", "x", "--encr"], ["--encryption-required"]],
    [["patch", "edge-router", "r1", "--no-tr"], ["--no-traversal"]],
    [["networks", "u"], ["use"]],
    [
      ["completion", ""],
      ["bash", "zsh", "fish"],
    ],
    [["api", "delete", "/cas"], ["/cas/"]],
    [
      ["api", "GET", "/fabric/v1/li"],
      ["/fabric/v1/links", "/fabric/v1/links/"],
    ],
    [["login", "--ca", ""], [":files"]],
    [["apply", "-f", ""], [":files"]],
    [["diff", "-R", "--filename", "a.yml", "-f", "b"], [":files"]],
    [["apply", "--pr"], ["--prune"]],
    [["apply", "--role-scope", "N"], ["Namespaced"]],
    [
      ["export", "service", "service-"],
      ["service-edge-router-policy", "service-policy"],
    ],
    [["login", "--token-file", ""], [":files"]],
    [["bugreport", "-o", ""], [":files"]],
    [["bugreport", "--log", ""], [":files"]],
    [["ping", "web", "--identity", ""], [":files"]],
    [["ping", ""], []],
    [["status", "--wa"], ["--watch"]],
    [["create", "config", "c", "--data", "@"], [":files"]],
    [["get", "services", ""], []],
    [["get", "services", "-w", "--no-headings", "-n", ""], []],
  ])("of %j offers %j", async (words, texts) => {
    expect(await offered(...words)).toEqual(texts);
  });

  it("offers all commands for nothing", async () => {
    expect(await offered("")).toEqual(expect.arrayContaining(["login", "get", "create", "completion", "help"]));
  });

  it.each([
    ["Default\\ Ad", "Default Ad"],
    ['"Default Ad', "Default Ad"],
    ["'a\\b'", "a\\b"],
    ["$(rm)", "$(rm)"],
    ["a\\", "a"],
  ])("takes %s of bash for %s", (word, text) => {
    expect(unquoted(word)).toBe(text);
  });
});
