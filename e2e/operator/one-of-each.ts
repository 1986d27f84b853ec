import { type Manifest, sample } from "../../packages/resources/src/kinds/testing/samples.ts";
import { ENTITY_PATHS } from "./entity-paths.ts";

type Spec = Readonly<Record<string, unknown>>;

/**
 * A resource of each kind that refers to a Network `main`, all of which hang together. Their names are the network's, too, so they begin with a text of the
 * caller's: `<prefix>-edgerouter`.
 *
 * @param edgeRouter what is laid over the spec of the EdgeRouter
 */
export function oneOfEach(prefix: string, edgeRouter: Spec = {}): Manifest[] {
  const nameOf = (kind: string) => `${prefix}-${kind.toLowerCase()}`;
  const refTo = (kind: string) => ({ name: nameOf(kind) });
  const specs: Readonly<Record<string, Spec>> = {
    OverlayService: { configRefs: [refTo("ServiceConfig")] },
    Identity: { enrollment: { output: "IdentitySecret" }, authPolicyRef: refTo("AuthPolicy") },
    ServicePolicy: {
      serviceRefs: [refTo("OverlayService")],
      identityRefs: [refTo("Identity")],
      postureCheckRefs: [refTo("PostureCheck")],
    },
    EdgeRouterPolicy: { edgeRouterRefs: [refTo("EdgeRouter")], identityRefs: [refTo("Identity")] },
    ServiceEdgeRouterPolicy: { edgeRouterRefs: [refTo("EdgeRouter")], serviceRefs: [refTo("OverlayService")] },
    EdgeRouter: edgeRouter,
  };
  return Object.keys(ENTITY_PATHS).map((kind) => {
    const { metadata: _, ...manifest } = sample(kind, specs[kind] ?? {});
    return { ...manifest, metadata: { name: nameOf(kind) } };
  });
}
