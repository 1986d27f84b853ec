import { isAtLeast } from "@sallyport/wire";

/** How the connections of a link belong together. */
export type LinkForm = "grouped" | "split" | "single";

/**
 * The form in which a router of this version is dialled: grouped since 1.6.6 and for development builds (0.0.0), before
 * that and for texts that are no version a split pair or, with `split: false`, a single connection
 * (docs/protocol/links.md, "Forms").
 */
export function linkForm(version: string, split: boolean): LinkForm {
  return isAtLeast(version, [1, 6, 6]) ? "grouped" : split ? "split" : "single";
}
