/** What users read of a failure in aria2, from the answers of a scripted one. */
import t, { type Test } from 'tap'
import { Aria2 } from '../../src/offline-downloads/aria2.js'
import { GatewayError } from '../../src/base/errors.js'
import { startScripted } from './scripted-server.js'

const { signal } = new AbortController()
const key = { id: 'one', folder: '/srv/downloads/one' }

/** The tool, with an aria2 that gives this answer to every call. */
async function answering(t: Test, answer: object): Promise<Aria2> {
  const { url } = await startScripted(t, (_request, response) => {
    response.end(JSON.stringify({ jsonrpc: '2.0', id: '1', ...answer }))
  })
  return new Aria2(() => ({ uri: url, secret: '' }), {
    access: async () => undefined,
    takeRefusal: () => undefined,
  })
}

void t.test('the reason of a failed download is worded here; the text of aria2 is only the cause', async (t) => {
  const errorMessage = 'Failed to open the file /srv/downloads/one/film, cause: No space left on device'
  for (const [errorCode, reason] of [
    ['1', 'aria2 could not download it'],
    ['2', 'the server does not answer in time'],
    ['3', 'the server does not have the file'],
    ['9', 'the disk of aria2 is full'],
    ['16', 'aria2 could not create the file'],
    ['19', 'the name of the server could not be resolved'],
    ['24', 'the server refuses the download without the right credentials'],
    ['99', 'aria2 could not download it'],
  ] as const) {
    const status = { gid: 'a', status: 'error', totalLength: '0', completedLength: '0', errorCode, errorMessage }
    const { state, error } = await (await answering(t, { result: status })).progress(key, signal)
    t.equal(state, 'failed')
    t.match(error, { code: 'unavailable', reason, message: reason })
    t.match(error?.cause, { message: `error ${errorCode}: ${errorMessage}` })
  }
})

void t.test('the text of a rejected call is only the cause', async (t) => {
  const message = 'The directory /srv/downloads/one cannot be used'
  const aria2 = await answering(t, { error: { code: 1, message } })
  const error: unknown = await aria2
    .start(key, { kind: 'address', address: 'http://example.org/' }, signal)
    .catch((thrown: unknown) => thrown)
  t.type(error, GatewayError)
  t.match(error, {
    code: 'invalid',
    message: 'aria2 rejected the request',
    cause: { message: `aria2.addUri: ${message}` },
  })
})
