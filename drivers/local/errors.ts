/** Maps system errors to GatewayErrors. Reasons never contain a path of the host. */
import { GatewayError, toGatewayError, type ErrorCode, type ErrorDetail } from '../../src/base/errors.js'

const table: Readonly<Record<string, readonly [code: ErrorCode, reason?: string | undefined, detail?: ErrorDetail]>> = {
  ENOENT: ['not_found'],
  EEXIST: ['exists'],
  ENOTDIR: ['not_folder'],
  EISDIR: ['is_folder'],
  ENOTEMPTY: ['not_empty'],
  EACCES: ['denied', 'denied by the file system'],
  EPERM: ['denied', 'denied by the file system'],
  EROFS: ['denied', 'read-only file system'],
  ELOOP: ['denied', undefined, 'dangling_symlink'],
  ENOSPC: ['no_space'],
  EDQUOT: ['no_space', 'the file system quota is exceeded'],
  EFBIG: ['too_large', 'file too large for the file system'],
  ENAMETOOLONG: ['invalid', 'the name is too long'],
  EINVAL: ['invalid', 'rejected by the file system'],
  EILSEQ: ['invalid', 'name rejected by the file system'],
  EXDEV: ['unsupported', 'another file system'],
  EMLINK: ['unsupported', 'too many hard links'],
  ENOTSUP: ['unsupported'],
  EOPNOTSUPP: ['unsupported'],
  ENOSYS: ['unsupported'],
  EBUSY: ['busy'],
  ETXTBSY: ['busy'],
  EMFILE: ['busy', 'too many open files'],
  ENFILE: ['busy', 'too many open files'],
  EAGAIN: ['busy'],
  EIO: ['unavailable', 'disk I/O error'],
  ENXIO: ['unavailable'],
  ENODEV: ['unavailable'],
  ESTALE: ['unavailable'],
  EHOSTDOWN: ['unavailable'],
  ENOTCONN: ['unavailable'],
  ETIMEDOUT: ['timeout'],
  // Errors of a body that ends prematurely.
  ERR_STREAM_PREMATURE_CLOSE: ['aborted'],
  ECONNRESET: ['aborted'],
}

/** The code of a system error, such as `ENOENT`; undefined for any other value. */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
}

/** Converts any thrown value to a GatewayError, with the original as `cause`. */
export function translateError(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error
  const known = table[systemCode(error) ?? '']
  if (!known) return toGatewayError(error)
  const [code, reason, detail] = known
  return new GatewayError(code, { reason, detail, cause: error })
}
