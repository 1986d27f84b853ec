import { formatHostPort, listenAdvice } from "@sallyport/wire";
import type { ListenSetting } from "./settings.ts";

/** An address of the configuration that the controller cannot listen on. The message names the setting. */
class ListeningError extends Error {
  override name = "ListeningError";
}

/** Begins to listen on an address of the configuration. @throws ListeningError */
export async function listening<T>({ setting, at }: ListenSetting, file: string, listen: () => Promise<T>): Promise<T> {
  try {
    return await listen();
  } catch (error) {
    const text = `cannot listen on ${formatHostPort(at)} (${setting} in ${file}): ${listenAdvice(error)}`;
    throw new ListeningError(text, { cause: error });
  }
}
