/** What breaks an upload is told for what it is, also where it broke before anybody wanted it. */
import { once } from 'node:events'
import { PassThrough, Readable } from 'node:stream'
import t from 'tap'
import { RequestBody } from '../../../drivers/lib/request-body.js'
import { GatewayError } from '../../../src/contract/errors.js'
import { refuses } from '../../conformance/subject.js'

const failures = [
  [new GatewayError('no_space'), 'no_space'],
  [new Error('boom'), 'internal'],
  [undefined, 'aborted'],
] as const

for (const [failure, code] of failures) {
  await t.test(`a body that broke off before the server wanted it is ${code}`, async (t) => {
    const stream = new Readable({ read: () => undefined })
    stream.on('error', () => undefined).destroy(failure)
    await once(stream, 'close').catch(() => undefined)
    const body = new RequestBody({ size: 5, rereadable: false, read: async () => stream }, undefined)
    const into = new PassThrough().resume()
    await refuses(t, () => body.sendTo(into), code, 'the upload')
    t.ok(into.destroyed, 'a short body never looks like a whole one')
  })
}
