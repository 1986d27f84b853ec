import { apiTime, BASE_PATHS, type controllerDetail } from "@sallyport/api";
import type { z } from "zod";
import type { Replica } from "../../model/replica/replica-set.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { links } from "./base.ts";

type ControllerDetail = z.input<typeof controllerDetail>;

/** The controllers as clients learn of them: where each serves the Client API and OIDC. One whose certificate is not known yet is left out. */
export function renderControllers({ ctx }: Pick<ApiDependencies, "ctx">): ControllerDetail[] {
  return ctx.replicas.replicas().flatMap((replica) => {
    const certificate = ctx.pki.certificateOf(replica.id);
    if (certificate === undefined) return [];
    return [renderController(replica, certificate.toString(), ctx.settings.oidc.enabled)];
  });
}

function renderController(replica: Replica, certPem: string, hasOidc: boolean): ControllerDetail {
  const { id, apiAddress, ctrlAddress, fingerprint, isLive } = replica;
  const since = apiTime(replica.startedAt);
  const at = (path: string) => [{ url: `https://${apiAddress}${path}`, version: "v1" }];
  return {
    ...{ _links: links("controllers", id), id, createdAt: since, updatedAt: since, tags: {}, name: id },
    apiAddresses: { "edge-client": at(BASE_PATHS.client), ...(hasOidc && { "edge-oidc": at("/oidc") }) },
    ...{ certPem, ctrlAddress, fingerprint, isOnline: isLive, lastJoinedAt: since },
  };
}
