import { GatewayError } from './errors.js'
import type { Path } from './path.js'

/** No mount covers the path. */
export class NoStorageError extends GatewayError {
  override at(): this {
    return this
  }

  constructor(path: Path, nothingMounted: boolean) {
    super('not_found', {
      path,
      reason: nothingMounted ? 'storage not found; please add a storage first' : 'storage not found',
    })
  }
}
