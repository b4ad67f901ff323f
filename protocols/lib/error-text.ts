/** The text of an error for protocols that report a hidden entry as a missing one. */
import type { GatewayError } from '../../src/base/errors.js'

/**
 * The message of an error, without details of internal ones, which are only logged. Has no operation and no path where
 * a hidden entry and a missing one must have the same text.
 */
export function errorText(error: GatewayError): string {
  const { code, detail } = error
  if (code === 'internal') return 'internal error'
  if (code === 'parent_missing' || detail === 'parent_hidden') return 'the parent folder does not exist'
  const isMissing = code === 'not_found' && (detail === undefined || detail === 'dangling_symlink')
  if (code === 'hidden' || isMissing) return 'not found'
  return error.message
}
