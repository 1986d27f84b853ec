import type { Logger } from "@sallyport/wire";
import type { ModelChange } from "./change-port.ts";
import type { CircuitAccess } from "./circuits/circuit-access.ts";
import type { CircuitRegistry } from "./circuits/circuit-registry.ts";
import type { DynamicCosts } from "./circuits/costs.ts";
import type { DataModelFeed } from "./data-model/data-model-feed.ts";
import type { RouterLife } from "./routers/router-life.ts";
import type { HostingEnds } from "./sessions/hosting-ends.ts";
import type { SessionFeed } from "./sessions/session-feed.ts";
import type { TerminatorValidation } from "./terminators/terminator-validation.ts";

/** Those that act on changes of the model. */
interface ModelFollowers {
  readonly life: RouterLife;
  readonly sessions: SessionFeed;
  readonly hosting: HostingEnds;
  readonly circuits: CircuitRegistry;
  readonly access: CircuitAccess;
  readonly costs: DynamicCosts;
  readonly validation: TerminatorValidation;
  readonly dataModel: DataModelFeed;
  readonly log: Logger;
}

/** Hands a change of the model to the parts that it concerns. Source: docs/protocol/fabric.md, "Access". */
export function followChange(followers: ModelFollowers, change: ModelChange): void {
  const { life, sessions, hosting, circuits, access, costs, validation, dataModel, log } = followers;
  switch (change.kind) {
    case "changes-lost":
      sessions.resync();
      access.changesLost();
      life.allChanged();
      dataModel.routerChanged();
      return;
    case "api-session-added":
      sessions
        .added(change.session)
        .catch((err: unknown) => log.error({ err }, "an API session could not be announced to routers"));
      return;
    case "api-sessions-added":
      sessions.resync();
      return;
    case "api-session-updated":
      sessions.updated(change.session);
      return;
    case "api-session-removed":
      sessions.removed(change.id, change.token);
      access.apiSessionRemoved(change.id);
      return;
    case "session-removed":
      sessions.sessionRemoved(change.id, change.token);
      access.sessionRemoved(change.id, change.token, change.session);
      hosting.sessionRemoved(change.token, change.session);
      return;
    case "revoked":
      access.revoked(change);
      return;
    case "access-changed":
      access.changed();
      return;
    case "router-changed":
      life.changed(change.routerId);
      dataModel.routerChanged(change.routerId);
      return;
    case "router-removed":
      life.removed(change.routerId);
      return;
    case "service-removed":
      for (const circuit of circuits.ofService(change.serviceId)) {
        circuits.end(circuit.id, true, "the service was deleted");
      }
      return;
    case "terminator-removed":
      costs.forget(change.terminatorId);
      validation.removed(change.terminatorId);
      return;
  }
}
