import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import { lifetimes } from "../config/settings.ts";

/** Lifetimes of a controller whose file sets none. */
export const DEFAULT_LIFETIMES = lifetimes(CONTROLLER_DEFAULTS);
