/** The file of a test network's router with its edge listener on a port of its own, and that many threads for it. */
export function withEdgeWorkers(text: string, port: number, workers: number): string {
  const listener = /( {2}- binding: edge\n {4}bind: tls:127\.0\.0\.1:)\d+(\n {4}advertise: localhost:)\d+\n/;
  if (!listener.test(text)) throw new Error("expected an edge listener in the file of a test network's router");
  return text.replace(listener, `$1${port}$2${port}\n    options: { workers: ${workers} }\n`);
}
