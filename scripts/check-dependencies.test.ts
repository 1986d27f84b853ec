import { describe, expect, it } from "vitest";
import { brokenRules, forbiddenWays, importCircles, tooLarge, unusedPackages } from "./check-dependencies.ts";

const specifiers = (file: string, source: string): string[] =>
  brokenRules(file, source).map((b) => `${b.line}:${b.specifier}`);

describe("dependency rules", () => {
  it.each([
    ["packages/wire/src/frame.ts", 'import { x } from "../../../controller/src/main.ts";'],
    ["packages/api/src/index.ts", 'import { readFile } from "node:fs/promises";'],
    ["packages/wire/src/frame.ts", 'import { x } from "../../api/src/index.ts";'],
    ["controller/src/store/database.ts", 'import { x } from "../model/identity.ts";'],
    ["controller/src/policy/index.ts", 'import { readFileSync } from "node:fs";'],
    ["controller/src/model/identity.ts", 'import { fabric } from "../fabric/fabric.ts";'],
    ["router/src/forwarder/forwarder.ts", 'export { x } from "../config/load.ts";'],
    ["router/src/edge/listener.ts", 'const x = await import("../control/controllers.ts");'],
    ["controller/src/main.ts", 'import "@sallyport/router";'],
    ["controller/src/pki/csr.ts", 'import { connect, isIP } from "node:net";'],
    ["controller/src/pki/csr.ts", 'import net from "node:net";'],
    ["packages/sdk/src/services.ts", 'import { ApiError } from "@sallyport/api";'],
    ["packages/api/src/client/client.ts", 'import { operations } from "../operations/apis.ts";'],
    ["operator/src/loop/loops.ts", 'import { networkReconciler } from "../kinds/network/reconcile.ts";'],
    ["operator/src/controller-client/trust.ts", 'import { Loops } from "../loop/loops.ts";'],
    ["operator/src/kinds/identity/reconcile.ts", 'import { secretNames } from "../network/render/names.ts";'],
    ["operator/src/kinds/edge-router/plan/step.ts", 'import { observeRouter } from "../reconcile/observe.ts";'],
    ["operator/src/kinds/service-policy/plan.ts", 'import { readFile } from "node:fs/promises";'],
  ])("refuses %s: %s", (file, source) => {
    expect(specifiers(file, `\n${source}`)).toHaveLength(1);
    expect(brokenRules(file, `\n${source}`)[0]?.line).toBe(2);
  });

  it.each([
    ["packages/sdk/src/context.ts", 'import { dialChannel } from "@sallyport/wire";'],
    ["packages/sdk/src/services.ts", 'import { ApiError } from "@sallyport/api/client";'],
    ["packages/sdk/src/services.ts", 'import type { operations } from "@sallyport/api";'],
    ["controller/src/model/fabric-model.ts", 'import type { FabricModel } from "../fabric/ports.ts";'],
    ["router/src/edge/listener.ts", 'import type { ControlPlane } from "../control/control-plane.ts";'],
    ["controller/src/store/database.ts", 'import pg from "pg";'],
    ["controller/src/pki/csr.ts", 'import { isIP } from "node:net";'],
    ["e2e/network/network.ts", 'import { x } from "@sallyport/controller";'],
    ["operator/src/kinds/identity/reconcile.ts", 'import { networkSecretProblem } from "../network/interface.ts";'],
    ["operator/src/kinds/edge-router/plan.ts", 'import type { EventNote } from "../../kube/events/recorder.ts";'],
  ])("allows %s: %s", (file, source) => {
    expect(specifiers(file, source)).toEqual([]);
  });
});

describe("what a program must not load", () => {
  const rule = { entry: "a/main.ts", under: "a/schemas/", package: "zod", why: "" };
  const waysOf = (files: Readonly<Record<string, string>>) => forbiddenWays(rule, (file) => files[file] ?? "");
  const schema = 'import { z } from "zod";';

  it.each([
    ["at once", 'import { x } from "./b.ts";'],
    ["when needed", 'const { x } = await import("./b.ts");'],
    ["for its effect", 'import "./b.ts";'],
    ["to hand it on", 'export { x } from "./b.ts";'],
    ["for what is a type only", 'import { type X } from "./b.ts";'],
  ])("is found behind other files: %s", (_, main) => {
    const files = { "a/main.ts": main, "a/b.ts": 'import { y } from "./schemas/c.ts";', "a/schemas/c.ts": schema };
    expect(waysOf(files)).toEqual([["a/main.ts", "a/b.ts", "a/schemas/c.ts"]]);
  });

  it("is not found behind types, nor elsewhere, nor in circles", () => {
    const types = 'import type { X } from "./schemas/c.ts";\nexport type { Y } from "./schemas/c.ts";';
    const circle = `${schema}\nimport "./main.ts";`;
    const main = `${types}\nimport "./b.ts";\nimport "./schemas/d.ts";`;
    const pure = 'import type { z } from "zod";';
    expect(waysOf({ "a/main.ts": main, "a/b.ts": circle, "a/schemas/c.ts": schema, "a/schemas/d.ts": pure })).toEqual(
      [],
    );
  });
});

describe("the shape of the sources", () => {
  const circlesOf = (files: Readonly<Record<string, string>>) =>
    importCircles(Object.keys(files), (file) => files[file] ?? "");

  it("has no circle of imports, types included", () => {
    const files = {
      "a/one.ts": 'import { two } from "./two.ts";',
      "a/two.ts": 'export { three } from "../b/three.ts";',
      "b/three.ts": 'import type { One } from "../a/one.ts";',
      "b/four.ts": 'import { one } from "../a/one.ts";',
    };
    expect(circlesOf(files)).toEqual([["a/one.ts", "a/two.ts", "b/three.ts"]]);
    expect(circlesOf({ ...files, "b/three.ts": 'import { x } from "@sallyport/wire";' })).toEqual([]);
  });

  it("has files of at most 400 lines and folders of at most 25 files", () => {
    const sizes: Readonly<Record<string, number>> = { "a/long.ts": 401, "a/full.ts": 400 };
    const read = (file: string) => "x\n".repeat(sizes[file] ?? 1);
    const folder = (name: string, count: number) => Array.from({ length: count }, (_, i) => `${name}/${i}.ts`);
    expect(tooLarge(["a/long.ts", "a/full.ts", ...folder("b", 25), ...folder("c", 26)], read)).toEqual([
      expect.stringContaining("a/long.ts: 401 lines"),
      expect.stringContaining("c: 26 files"),
    ]);
  });
});

describe("packages that are declared", () => {
  it("must be imported by some file, as a whole, in part, for its effect, or when needed", () => {
    const sources = [
      'import pg from "pg";\nimport "reflect-metadata";',
      'import { x } from "@sallyport/wire/testing";\nconst y = await import("koffi");',
    ];
    const declared = ["pg", "reflect-metadata", "@sallyport/wire", "koffi", "pkijs", "pg-pool"];
    expect(unusedPackages(declared, sources)).toEqual(["pkijs", "pg-pool"]);
  });
});
