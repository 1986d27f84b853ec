import type { IsThere } from "../../../children/intent.ts";
import type { FoundPod } from "../../../children/workload.ts";
import type { ConditionDraft } from "../../../kube/conditions.ts";
import type { EventNote } from "../../../kube/events/recorder.ts";
import type { KubeObject, ObjectRef } from "../../../kube/kinds.ts";
import type { Controllers } from "../../network/interface.ts";
import type { EdgeRouterResource, RouterStatus } from "../schema.ts";
import type { ObservedRouter } from "./observed.ts";

/** Everything that a plan is made from. */
export interface RouterPlanInput {
  readonly resource: EdgeRouterResource;
  readonly now: Date;
  /** Where the spec names no image. */
  readonly image: string;
  readonly controllers: Controllers;
  /** The routers that are wanted, from 0 on. */
  readonly routers: readonly ObservedRouter[];
  /** Those that are there and not wanted any more. */
  readonly surplus: readonly SurplusRouter[];
  /** Objects of all routers, by `<kind>/<name>`. */
  readonly shared: ReadonlyMap<string, KubeObject>;
  readonly isThere: IsThere;
}

/** A router that is to go. */
export interface SurplusRouter {
  readonly ordinal: number;
  /** Undefined: there is none in the network. */
  readonly entity?: { readonly id: string; readonly name: string; readonly noTraversal: boolean } | undefined;
  readonly before: RouterStatus | undefined;
  /** Its objects in the cluster; pods and claims apart. */
  readonly objects: readonly KubeObject[];
  readonly pod?: FoundPod | undefined;
  readonly claim?: KubeObject | undefined;
}

/** One thing to do. Each may be done again, and each leaves less to do. */
export type RouterAction =
  | { readonly type: "apply"; readonly object: KubeObject }
  /** Only this very object. */
  | { readonly type: "delete"; readonly ref: ObjectRef; readonly uid: string | undefined }
  | { readonly type: "growClaim"; readonly name: string; readonly size: string }
  | {
      readonly type: "reEnroll";
      readonly ordinal: number;
      readonly id: string;
      /** Value of the annotation that asks for it. */
      readonly handled?: string | undefined;
      /** For want of a token that it could use: not when it has used the last one meanwhile. */
      readonly unlessVerified?: boolean;
    }
  | { readonly type: "stopTraversal"; readonly ordinal: number; readonly id: string }
  | { readonly type: "removeEntity"; readonly ordinal: number };

/** What is to be done, and how things stand until then. */
export interface RouterPlan {
  readonly actions: readonly RouterAction[];
  readonly routers: readonly RouterStatus[];
  readonly conditions: readonly ConditionDraft[];
  readonly events: readonly EventNote[];
  readonly requeueAfterMs: number;
  /** Routers that go on under an old address until their certificate has the name of the new one. */
  readonly changing: readonly number[];
  readonly replicas: number;
  readonly readyReplicas: number;
  readonly onlineReplicas: number;
  readonly lastHandledReEnroll: string | undefined;
  readonly lastHandledRestart: string | undefined;
}
