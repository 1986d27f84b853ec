import type { AnyResource, KindReconciler } from "../loop/kind-reconciler.ts";
import { authPolicyReconciler } from "./auth-policy/reconcile.ts";
import { edgeRouterReconciler } from "./edge-router/reconcile.ts";
import { edgeRouterPolicyReconciler } from "./edge-router-policy/reconcile.ts";
import { identityReconciler } from "./identity/reconcile.ts";
import type { ServiceAccountToken } from "./network/reconcile/external.ts";
import { networkReconciler } from "./network/reconcile.ts";
import { overlayServiceReconciler } from "./overlay-service/reconcile.ts";
import { postureCheckReconciler } from "./posture-check/reconcile.ts";
import { serviceConfigReconciler } from "./service-config/reconcile.ts";
import { serviceEdgeRouterPolicyReconciler } from "./service-edge-router-policy/reconcile.ts";
import { servicePolicyReconciler } from "./service-policy/reconcile.ts";

/** What reconcilers may need to know of the program's settings. */
interface ControllerSettings {
  /** Image of routers whose resource names none. */
  readonly routerImage: string;
  /** Image of managed controllers whose resource names none. */
  readonly controllerImage: string;
  /** How the API server is found, where the operator runs outside of its cluster. */
  readonly kubeconfig?: string | undefined;
  readonly server?: string | undefined;
}

/** What the program lends them. */
export interface ReconcilerDependencies {
  /** Tokens of the operator's own service account, where it has one. */
  readonly serviceAccountToken?: ServiceAccountToken;
}

/** Names of Services are known in the cluster only. */
const reachOf = ({ kubeconfig, server }: ControllerSettings) =>
  kubeconfig === undefined && server === undefined ? "service" : "advertised";

/** The loop gives each reconciler resources of its own kind only. */
const of = <R extends AnyResource>(reconciler: KindReconciler<R>): KindReconciler =>
  reconciler as unknown as KindReconciler;

/** What the operator reconciles. A kind is added by one line. */
export const controllers = (
  settings: ControllerSettings,
  dependencies: ReconcilerDependencies = {},
): readonly KindReconciler[] => [
  of(networkReconciler({ controllerImage: settings.controllerImage, reach: reachOf(settings), ...dependencies })),
  of(overlayServiceReconciler),
  of(serviceConfigReconciler()),
  of(servicePolicyReconciler),
  of(edgeRouterPolicyReconciler),
  of(serviceEdgeRouterPolicyReconciler),
  of(authPolicyReconciler),
  of(postureCheckReconciler),
  of(identityReconciler()),
  of(edgeRouterReconciler({ image: settings.routerImage })),
];
