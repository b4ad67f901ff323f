/** What the system's error codes mean to the gateway: one table, and words that never hold a path of the host. */
import { type ErrorCode, GatewayError, toGatewayError } from '../../src/errors.js'

const table: Readonly<Record<string, readonly [code: ErrorCode, reason?: string]>> = {
  ENOENT: ['not_found'],
  EEXIST: ['exists'],
  ENOTDIR: ['not_dir'],
  EISDIR: ['is_dir'],
  ENOTEMPTY: ['not_empty'],
  EACCES: ['denied', 'the file system denies it'],
  EPERM: ['denied', 'the file system denies it'],
  EROFS: ['denied', 'read-only file system'],
  ELOOP: ['denied', 'a link that leads nowhere'],
  ENOSPC: ['no_space'],
  EDQUOT: ['no_space', 'the quota of the file system is used up'],
  EFBIG: ['too_large', 'larger than the file system allows'],
  ENAMETOOLONG: ['invalid', 'the name is too long'],
  EINVAL: ['invalid', 'the file system refuses it'],
  EILSEQ: ['invalid', 'the file system refuses this name'],
  EXDEV: ['unsupported', 'another file system'],
  EMLINK: ['unsupported', 'too many links'],
  ENOTSUP: ['unsupported'],
  EOPNOTSUPP: ['unsupported'],
  ENOSYS: ['unsupported'],
  EBUSY: ['busy'],
  ETXTBSY: ['busy'],
  EMFILE: ['busy', 'too many open files'],
  ENFILE: ['busy', 'too many open files'],
  EAGAIN: ['busy'],
  EIO: ['unavailable', 'the disk reports an error'],
  ENXIO: ['unavailable'],
  ENODEV: ['unavailable'],
  ESTALE: ['unavailable'],
  EHOSTDOWN: ['unavailable'],
  ENOTCONN: ['unavailable'],
  ETIMEDOUT: ['timeout'],
  // What a body does that ends without its end.
  ERR_STREAM_PREMATURE_CLOSE: ['aborted'],
  ECONNRESET: ['aborted'],
}

/** The code of a system error; undefined for everything else. */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
}

/** Any thrown value as a GatewayError, with the original as `cause`. */
export function translated(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error
  const known = table[systemCode(error) ?? '']
  if (!known) return toGatewayError(error)
  const [code, reason] = known
  return new GatewayError(code, { reason, cause: error })
}
