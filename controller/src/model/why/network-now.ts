import type { CircuitService, TerminatorRecord } from "../../fabric/ports.ts";
import type { RouteFromRouter } from "../../policy/why/facts.ts";

/** What a dial would come to. */
type Choice =
  | {
      readonly ok: true;
      readonly terminator: Pick<TerminatorRecord, "id">;
      readonly path: { readonly routers: readonly string[] };
    }
  | { readonly ok: false; readonly cause: string; readonly message: string };

/** What the running network knows: routers, links and who is connected. */
export interface NetworkNow {
  /** Undefined for a router that is not connected. */
  routerState(id: string):
    | {
        readonly isOnline: boolean;
        readonly supportedProtocols: Readonly<Record<string, string>>;
        readonly checksPosture?: boolean;
      }
    | undefined;
  identityConnection(identityId: string): "online" | "offline" | "unknown";
  /** The choice of a dial of this moment. */
  chooseTerminator(
    request: { readonly service: CircuitService; readonly instanceId: string; readonly from: string },
    terminators: readonly TerminatorRecord[],
  ): Choice;
}

const CAUSES = ["NO_TERMINATORS", "NO_ONLINE_TERMINATORS", "NO_PATH", "INVALID_STRATEGY"] as const;

export function routeFrom(from: string, choice: Choice): RouteFromRouter {
  if (choice.ok) return { from, terminatorId: choice.terminator.id, via: choice.path.routers };
  const cause = CAUSES.find((each) => each === choice.cause);
  if (cause === undefined) throw new Error(`a choice of terminators failed for the unknown reason ${choice.cause}`);
  return { from, cause, message: choice.message };
}
