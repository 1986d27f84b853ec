import { describe, expect, it } from "vitest";
import { brokenRules } from "./broken-rules.ts";

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
    ["controller/src/oidc/refresh.ts", 'import { sql } from "kysely";'],
    ["controller/src/oidc/refresh.ts", 'import { send } from "../http/reply.ts";'],
    ["controller/src/oidc/refresh.ts", 'import type { Database } from "../store/schema.ts";'],
    ["controller/src/http/server.ts", 'import { createProvider } from "../oidc/provider.ts";'],
    ["controller/src/pki/csr.ts", 'import { connect, isIP } from "node:net";'],
    ["controller/src/pki/csr.ts", 'import net from "node:net";'],
    ["packages/sdk/src/services.ts", 'import { ApiError } from "@sallyport/api";'],
    ["packages/api/src/client/client.ts", 'import { operations } from "../operations/apis.ts";'],
    ["operator/src/loop/loops.ts", 'import { networkReconciler } from "../kinds/network/reconcile.ts";'],
    ["operator/src/controller-client/trust.ts", 'import { Loops } from "../loop/loops.ts";'],
    ["operator/src/kinds/identity/reconcile.ts", 'import { secretNames } from "../network/render/names.ts";'],
    ["operator/src/kinds/edge-router/plan/step.ts", 'import { observeRouter } from "../reconcile/observe.ts";'],
    ["operator/src/kinds/network/plan/access.ts", 'import { readFile } from "node:fs/promises";'],
    ["operator/src/kinds/network/plan/access.ts", 'import { EntitySync } from "@sallyport/resources/sync";'],
    ["packages/resources/src/entity/plan.ts", 'import { EntityReader } from "./collection.ts";'],
    ["packages/resources/src/fields/cel.ts", 'import { edgeRouter } from "../kinds/edge-router/entity.ts";'],
    ["packages/resources/src/kinds/identity/entity.ts", 'import { readFile } from "node:fs/promises";'],
    ["packages/resources/src/kinds/identity/entity.ts", 'import { ApiError } from "@sallyport/api";'],
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
    ["controller/src/oidc/refresh.ts", 'import type { Endpoint } from "../http/endpoints.ts";'],
    ["controller/src/oidc/refresh.ts", 'import type { OwnTokens } from "../auth/tokens/own-tokens.ts";'],
    ["controller/src/store/database.ts", 'import pg from "pg";'],
    ["controller/src/pki/csr.ts", 'import { isIP } from "node:net";'],
    ["e2e/network/network.ts", 'import { x } from "@sallyport/controller";'],
    ["operator/src/kinds/identity/reconcile.ts", 'import { networkSecretProblem } from "../network/interface.ts";'],
    ["operator/src/kinds/edge-router/plan.ts", 'import type { EventNote } from "../../kube/events/recorder.ts";'],
  ])("allows %s: %s", (file, source) => {
    expect(specifiers(file, source)).toEqual([]);
  });
});
