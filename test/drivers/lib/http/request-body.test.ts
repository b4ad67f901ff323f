/** RequestBody reports the failure of an upload's source, also if it failed before it was read. */
import { once } from 'node:events'
import { PassThrough, Readable } from 'node:stream'
import t from 'tap'
import { RequestBody } from '../../../../drivers/lib/http/request-body.js'
import { GatewayError } from '../../../../src/base/errors.js'
import { refuses } from '../../../driver-conformance/subject.js'

const failures = [
  [new GatewayError('no_space'), 'no_space'],
  [new Error('boom'), 'internal'],
  [undefined, 'aborted'],
] as const

for (const [failure, code] of failures) {
  await t.test(`RequestBody.sendTo() rejects with ${code} if the source failed before it was read`, async (t) => {
    const stream = new Readable({ read: () => undefined })
    stream.on('error', () => undefined).destroy(failure)
    await once(stream, 'close').catch(() => undefined)
    const body = new RequestBody({ size: 5, rereadable: false, read: async () => stream }, undefined)
    const into = new PassThrough().resume()
    await refuses(t, () => body.sendTo(into), code, 'the upload')
    t.ok(into.destroyed, 'the request is destroyed, so that a short body never looks complete')
  })
}
