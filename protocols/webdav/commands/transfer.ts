/** COPY and MOVE (RFC 4918 §9.8, §9.9). */
import { GatewayError, isGatewayError } from '../../../src/contract/errors.js'
import { isWithin } from '../../../src/contract/path.js'
import type { TransferResult } from '../../../src/tree/preconditions.js'
import { HttpError } from '../errors.js'
import { sendFailures, memberFailures } from '../multistatus.js'
import { sendStatus, expectDepth, disableTimeout, type Command, type RequestContext } from '../request-context.js'

export const copy: Command = async (context) => {
  const depth = expectDepth(context, [0, 'infinity'], 'infinity')
  await transfer(context, (to, options) =>
    context.fs.copy(context.path, to, { ...options, deep: depth === 'infinity' }),
  )
}

export const move: Command = async (context) => {
  // For a folder, only infinity is allowed (RFC 4918 §9.9.2). For a file, Depth has no effect.
  expectDepth(context, ['infinity', 0], 'infinity')
  const depth = context.headers.depth
  if (depth === 0 && (await context.fs.stat(context.path, context.access)).kind === 'folder') {
    throw new HttpError(400, 'Depth must be infinity to move a folder')
  }
  await transfer(context, (to, options) => context.fs.move(context.path, to, options))
}

type Operation = (
  to: RequestContext['path'],
  options: RequestContext['change'] & { readonly overwrite: boolean },
) => Promise<TransferResult>

async function transfer(context: RequestContext, operation: Operation): Promise<void> {
  const { request, response, path, headers, change } = context
  const to = headers.destination
  if (to === undefined) throw new GatewayError('invalid', { reason: 'the Destination header is missing' })
  // A copy into itself would not terminate. Replacing a folder that contains the source would remove the source.
  if (isWithin(path, to) || isWithin(to, path)) {
    throw new HttpError(403, 'source and destination are the same, or one contains the other')
  }
  disableTimeout(request)
  let result: TransferResult
  try {
    result = await operation(to, { ...change, overwrite: headers.overwrite })
  } catch (error) {
    const failures = memberFailures(error, path) ?? memberFailures(error, to)
    if (failures !== undefined) {
      sendFailures(context, failures)
      return
    }
    if (isGatewayError(error, 'exists')) throw new HttpError(412, error.message) // Overwrite: F
    throw error
  }
  sendStatus(response, result.created ? 201 : 204)
}
