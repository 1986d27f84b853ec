import { eventually } from "../../network/eventually.ts";
import type { Stage } from "../stage.ts";

/** What the quickstart's web server says, which listens on the loopback of its pod only, by the port of the client. */
export function clientOf(stage: () => Stage): { hello(): Promise<string>; firstAnswer(): Promise<string> } {
  let client = "";
  const hello = async (): Promise<string> => await stage().fetchFrom(client, 8080);
  const firstAnswer = async (): Promise<string> => {
    await stage().wait("condition=Available", "deployment/hello-client", 600);
    [client = ""] = await stage().pods("app.kubernetes.io/name=hello-client");
    return await stage().explain(eventually("the service answers", hello, 600_000));
  };
  return { hello, firstAnswer };
}
