import { errorText } from "@sallyport/async";

/** What the agent of a running router answers when it has renewed its certificates; else the reason why not. */
export const RENEWED = "renewed";

/** Renews, as an agent's answer. */
export async function extendAnswer(renew: () => Promise<void>): Promise<string> {
  try {
    await renew();
    return RENEWED;
  } catch (error) {
    return errorText(error);
  }
}
