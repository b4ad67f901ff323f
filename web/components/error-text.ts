/** Texts for failures, in plain words. */
import { ApiError, type ErrorName } from '../api/client.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('errors')

/** The message of a failure for the user. */
export function messageOf(error: unknown): string {
  if (error instanceof ApiError) return ofApi(error)
  return error instanceof Error ? error.message : String(error)
}

function ofApi({ error, message }: ApiError): string {
  // A server of a later version may have further names.
  if (error === undefined || !Object.hasOwn(texts.failures, error)) return texts.unknownFailure(message)
  const text: string | ((reason: string) => string) = texts.failures[error]
  return typeof text === 'function' ? text(reasonIn(message, error)) : text
}

/** The text of the name of a failure, without its reason; the name with blanks if there is none. */
export function textOfName(name: string): string {
  const failures: Readonly<Record<string, unknown>> = texts.failures
  const text = Object.hasOwn(failures, name) ? failures[name] : undefined
  return typeof text === 'string' ? text : name.replaceAll('_', ' ')
}

/** The text of a failure of the past, with its reason if the text needs one; undefined if there is none. */
export function textOfFailure(name: string | null, reason: string): string | undefined {
  const failures: Readonly<Record<string, string | ((reason: string) => string)>> = texts.failures
  const text = name !== null && Object.hasOwn(failures, name) ? failures[name] : undefined
  return typeof text === 'function' ? text(reason) : text
}

/** How many clauses of a message say only where it was found. */
const leadingClauses: Readonly<Partial<Record<ErrorName, number>>> = {
  storage_created: 2,
  storage_failed: 2,
  setting_refused: 1,
  tool_failed: 1,
}

function reasonIn(message: string, error: ErrorName): string {
  const clauses = message.split(': ')
  // A change of the storage says why it does not start, and a request for its files also where.
  if (clauses[0] === 'failed init storage') return clauses.slice(1).join(': ')
  const reason = clauses.slice(leadingClauses[error] ?? 0)
  return (error === 'storage_failed' ? reason.slice(0, -1) : reason).join(': ')
}
