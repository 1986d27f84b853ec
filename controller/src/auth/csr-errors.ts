import { apiError, unhandledCause } from "@sallyport/api";

/** Runs what issues certificates; a certificate request that cannot be used becomes a 400 of the API. */
export async function withCsrErrors<T>(issue: () => Promise<T>): Promise<T> {
  try {
    return await issue();
  } catch (error) {
    throw csrProblem(error);
  }
}

function csrProblem(error: unknown): unknown {
  if (!(error instanceof Error) || !("code" in error)) return error;
  switch (error.code) {
    case "MISSING_OR_INVALID_CSR":
    case "COULD_NOT_PROCESS_CSR":
    case "EDGE_ROUTER_ENROLL_COMMON_NAME_INVALID":
      return apiError(error.code, unhandledCause(error.message));
    default:
      return error;
  }
}
