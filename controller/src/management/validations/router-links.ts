import { encodeControl, InspectionKey, ManagementType, mgmtPb } from "@sallyport/wire";
import { z } from "zod";
import type { ManagementParts } from "../dependencies.ts";
import { askRouter } from "./router-question.ts";
import { type NamedRouter, routerValidation } from "./validation.ts";

const { LinkState } = mgmtPb;

const answerSchema = z.object({
  links: z.array(z.object({ id: z.string(), dest: z.string(), dialed: z.boolean().default(false) })).nullable(),
});

type LinkDetail = Omit<mgmtPb.RouterLinkDetails_Link, "$typeName" | "$unknown">;

/** Compares the links that routers have with those that the controller knows. */
export function routerLinks(parts: ManagementParts) {
  return routerValidation(ManagementType.ValidateRouterLinks, parts, async (router) =>
    encodeControl(mgmtPb.RouterLinkDetailsSchema, await linksOf(parts, router)),
  );
}

async function linksOf(parts: ManagementParts, router: NamedRouter) {
  const { fabric } = parts;
  const about = { routerId: router.id, routerName: router.name };
  const answer = await askRouter(parts, router.id, InspectionKey.Links, answerSchema);
  if (!answer.ok) return { ...about, validateSuccess: false, message: answer.problem };
  const online = new Set(fabric.onlineRouterIds());
  const known = new Map(
    fabric
      .links()
      .filter((link) => link.state === "connected" && (link.source === router.id || link.destination === router.id))
      .map((link) => [link.id, link]),
  );
  const linkDetails: LinkDetail[] = (answer.value.links ?? []).map(({ id, dest, dialed }) => {
    const destConnected = online.has(dest);
    const isKnown = known.delete(id);
    return {
      linkId: id,
      ctrlState: isKnown ? LinkState.LINK_ESTABLISHED : LinkState.LINK_UNKNOWN,
      routerState: LinkState.LINK_ESTABLISHED,
      destConnected,
      // A link to a router that is away may be known or not; one to a router that is there has to be.
      isValid: isKnown === destConnected,
      destRouterId: dest,
      dialed,
    };
  });
  for (const link of known.values()) {
    const isDialed = link.source === router.id;
    const destination = isDialed ? link.destination : link.source;
    linkDetails.push({
      linkId: link.id,
      ctrlState: LinkState.LINK_ESTABLISHED,
      routerState: LinkState.LINK_UNKNOWN,
      destConnected: online.has(destination),
      isValid: false,
      destRouterId: destination,
      dialed: isDialed,
    });
  }
  return { ...about, validateSuccess: true, linkDetails };
}
