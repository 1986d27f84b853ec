import type { Context, ServiceListener } from "@sallyport/sdk";

/** Hosts a service that sends back what it gets, and its end when the other side ended. */
export async function hostEcho(context: Context, service: string): Promise<ServiceListener> {
  const listener = await context.listen(service, { allowHalfOpen: true });
  listener.on("error", () => {});
  listener.on("connection", (connection) => {
    connection.on("error", () => {});
    connection.pipe(connection);
  });
  return listener;
}
