import type { FabricModel } from "../../fabric/ports.ts";
import type { ModelContext } from "../context.ts";
import { RouterDataModel } from "../data-model/router-data-model.ts";
import type { Model } from "../model.ts";
import { CircuitFacts } from "./circuit-facts.ts";
import { fabricAuthorization } from "./fabric-authorization.ts";
import { FabricChanges } from "./fabric-changes.ts";
import { fabricRouters } from "./fabric-routers.ts";
import { fabricSessions } from "./fabric-sessions.ts";
import { fabricTerminators } from "./fabric-terminators.ts";
import { fabricTunnel } from "./fabric-tunnel.ts";

/** The model as the fabric sees it. `close` ends the subscription to the change log, also while listeners remain. */
export function createFabricModel(ctx: ModelContext, model: Model): FabricModel & { close(): Promise<void> } {
  const changes = new FabricChanges(ctx);
  const dataModel = new RouterDataModel(ctx, () => ({
    server: ctx.pki.networkCertificate,
    tokenKeys: ctx.tokens.keys.published().map(({ certificate }) => certificate),
    authorities: ctx.pki.trustAnchors,
  }));
  const ignoreKeys = ctx.tokens.keys.onChange(() => dataModel.certificatesChanged());
  const facts = new CircuitFacts(ctx.store.changes);
  return {
    dataModel,
    onChange: (handler) => changes.add(handler),
    close: async () => {
      ignoreKeys();
      changes.close();
      facts.close();
      await dataModel.close();
    },
    ...fabricRouters(ctx, model),
    ...fabricSessions(ctx, model),
    ...fabricAuthorization(ctx, model, facts),
    ...fabricTerminators(ctx, model, facts),
    ...fabricTunnel(ctx, model),
  };
}
