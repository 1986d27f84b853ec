import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { announceSkip } from "../../../scripts/run/skipped.ts";
import { Cli } from "../../network/cli.ts";
import { type Network, startNetwork } from "../../network/network.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";

const folder = makeScratch("cli-completion");
let cli: Cli;
let network: Network;
let bin: string;

/** Debian has each as a package of its name; a machine without one skips its test. */
const has = (shell: string): boolean => {
  const isThere = spawnSync(shell, ["-c", "true"]).status === 0;
  if (!isThere) announceSkip(`THE COMPLETION TESTS IN ${shell}`, `${shell} is not installed`, "");
  return isThere;
};

beforeAll(async () => {
  cli = await Cli.packed(folder);
  bin = join(folder, "bin");
  mkdirSync(bin);
  writeFileSync(join(bin, "sallyport"), `#!/bin/sh\nexec "${process.execPath}" "${cli.main}" "$@"\n`, { mode: 0o755 });
  symlinkSync(join(bin, "sallyport"), join(bin, "sp"));
  network = await startNetwork(join(folder, "network"));
  await cli.login(network);
  await cli.done("create", "service", "website", "--role-attributes", "web");
  for (const name of ["spiffe://a:b", "it's"]) await cli.done("create", "service", name);
}, 120_000);

afterAll(async () => {
  await network?.stop();
  removeScratch(folder);
});

const run = (shell: string, args: readonly string[], input: string): string =>
  execFileSync(shell, args, {
    input,
    encoding: "utf8",
    timeout: 60_000,
    env: { ...cli.env, PATH: `${bin}:${process.env.PATH}`, HOME: folder, TERM: "dumb" },
  });

/** What bash would put on the line: words as it splits them, with the last one open. */
const inBash = (line: string, words: readonly string[]): string[] =>
  run(
    "bash",
    ["--norc"],
    `source <(sallyport completion bash)
compopt() { :; }
COMP_LINE=${quoted(line)} COMP_POINT=${line.length} COMP_WORDS=(${words.map(quoted).join(" ")}) COMP_CWORD=${words.length - 1}
_sallyport
printf '%s\\n' "\${COMPREPLY[@]}"
`,
  )
    .split("\n")
    .filter((each) => each !== "");

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

describe("completion with the names of the network", () => {
  it.skipIf(!has("bash"))("works in bash", () => {
    expect(inBash("sallyport get serv", ["sallyport", "get", "serv"])).toEqual(
      expect.arrayContaining(["services", "service-policies"]),
    );
    expect(inBash("sallyport describe service web", ["sallyport", "describe", "service", "web"])).toEqual(["website"]);
    expect(inBash("sallyport describe identity Def", ["sallyport", "describe", "identity", "Def"])).toEqual([
      "Default\\ Admin",
    ]);
    expect(
      inBash("sallyport describe identity Default\\ A", ["sallyport", "describe", "identity", "Default\\ A"]),
    ).toEqual(["Default\\ Admin"]);
    expect(inBash("sallyport why Def", ["sallyport", "why", "Def"])).toEqual(["Default\\ Admin"]);
    expect(inBash("sallyport why x web", ["sallyport", "why", "x", "web"])).toEqual(["website"]);
    expect(inBash("sallyport ping web", ["sallyport", "ping", "web"])).toEqual(["website"]);
    // Bash replaces only what follows the last colon.
    const colon = ["sallyport", "get", "service", "spiffe", ":", "//a", ":", ""];
    expect(inBash("sallyport get service spiffe://a:", colon)).toEqual(["b"]);
    expect(inBash("sallyport get service it", ["sallyport", "get", "service", "it"])).toEqual(["it\\'s"]);
  });

  it.skipIf(!has("fish"))("works in fish", () => {
    const offered = (line: string) =>
      run("fish", ["--no-config", "-c", `sallyport completion fish | source\ncomplete -C ${quoted(line)}\n`], "");
    expect(offered("sallyport get serv")).toContain("services\tServices\n");
    expect(offered("sallyport get services we")).toBe("website\n");
    expect(offered("sallyport create sp x --service-roles @we")).toBe("@website\n");
    expect(offered("sallyport describe identity Def")).toMatch(/^Default\\? Admin\n$/);
    expect(offered("sallyport ")).toContain("login\tlog in to a network\n");
  });

  it.skipIf(!has("zsh"))("works in zsh, with keys that are pressed", () => {
    // A shell behind a terminal of its own: the completed line is run, and what it prints is read.
    const output = run(
      "zsh",
      ["-f"],
      `zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; unsetopt zle_bracketed_paste; autoload -Uz compinit; compinit -u -D; source <(sallyport completion zsh); print re""ady'
while zpty -r shell line; do [[ $line == *ready* ]] && break; done
zpty -w -n shell $'sallyport get services webs\\t -o name; print do""ne\\n'
while zpty -r shell line; do print -r -- $line; [[ $line == *done* ]] && break; done
zpty -w -n shell $'sallyport get identities Def\\t -o name; print fin""ished\\n'
while zpty -r shell line; do print -r -- $line; [[ $line == *finished* ]] && break; done
`,
    );
    expect(output).toContain("service/website");
    expect(output).toContain("identity/Default Admin");
  });

  it("offers nothing, and says nothing, when the controller is away", async () => {
    const away = new Cli(cli.main, join(folder, "away"));
    expect(await away.run("__complete", "get", "services", "")).toEqual({ code: 0, output: "", errors: "" });
  });
});
