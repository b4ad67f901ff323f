/** Parts of the Rclone driver that need no process: options, and one-time sources. */
import { get, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { OneTimeSources } from '../../../drivers/rclone/one-time-sources.js'
import { parseFlags, parseRemote } from '../../../drivers/rclone/options.js'
import { GatewayError } from '../../../src/base/errors.js'
import { endless, source } from '../../driver-conformance/subject.js'

void t.test('remotes and flags are parsed strictly', async (t) => {
  t.same(parseRemote(' gdrive: '), { fs: 'gdrive:', section: 'gdrive' })
  t.same(parseRemote('my drive:a/b//c/'), { fs: 'my drive:a/b/c', section: 'my drive' })
  t.same(parseRemote('x:/'), { fs: 'x:/', section: 'x' })
  t.same(parseRemote('größe_1.2+@:a:b,c=d'), { fs: 'größe_1.2+@:a:b,c=d', section: 'größe_1.2+@' })
  for (const text of ['', 'x', ':x:', 'x,y:', '-x:', 'x:a/../b', 'x:]', '/x:'])
    t.throws(() => parseRemote(text), { code: 'invalid' }, text)
  t.same(parseFlags('--bwlimit 10M:off\n\n--no-check-certificate\r\n--timeout=1m30s'), [
    '--bwlimit=10M:off',
    '--no-check-certificate=true',
    '--timeout=1m30s',
  ])
  for (const text of ['--config=x', '--bwlimit=x', '--bwlimit=1M\n-v', '--timeout=1', '--rc', '--constructor', 'x'])
    t.throws(() => parseFlags(text), { code: 'invalid' }, text)
  t.same(parseFlags('--bwlimit=Mon-08:00,512k Sun-23:30,off'), ['--bwlimit=Mon-08:00,512k Sun-23:30,off'])
  const start = performance.now()
  t.throws(() => parseFlags(`--bwlimit=${'1'.repeat(100)}!`), { code: 'invalid' })
  t.ok(performance.now() - start < 1000, 'in linear time')
})

void t.test('a one-time source is sent once, to one address, with its length and time', async (t) => {
  const sources = new OneTimeSources()
  const modified = new Date('2001-02-03T04:05:06Z')
  const offer = await sources.offer({ source: source('hello'), modified, signal: undefined })
  const { origin } = new URL(offer.url)
  t.match(offer.url, /^http:\/\/127\.0\.0\.1:\d+\/[\w-]{43}$/)
  t.equal((await fetch(`${origin}/`)).status, 404)
  t.equal((await fetch(offer.url, { method: 'POST' })).status, 404)
  const [first, second] = await Promise.all([fetch(offer.url), fetch(offer.url)])
  const statuses = [first.status, second.status].sort()
  t.same(statuses, [200, 404])
  const answer = first.status === 200 ? first : second
  t.equal(answer.headers.get('content-length'), '5')
  t.equal(answer.headers.get('last-modified'), modified.toUTCString())
  t.equal(await answer.text(), 'hello')
  t.equal(await offer.sent, 5)
  const closed = await sources.offer({ source: source('x'), modified: undefined, signal: undefined })
  closed.close()
  t.equal((await fetch(closed.url)).status, 404, 'a closed one')
  await sources.close()
})

void t.test('a one-time source that fails, or must not be published, is cut', async (t) => {
  const sources = new OneTimeSources()
  const refuse = async () => Promise.reject(new GatewayError('locked'))
  for (const size of [5, undefined, 0]) {
    const offer = await sources.offer({
      source: source(size === 0 ? '' : 'hello', size),
      modified: undefined,
      signal: undefined,
      beforeEnd: refuse,
    })
    await t.rejects(
      fetch(offer.url).then((answer) => answer.text()),
      'not complete',
    )
    await t.rejects(offer.sent, { code: 'locked' })
    t.ok(offer.hasSourceFailed())
  }
  const { source: body, body: stream } = endless()
  const offer = await sources.offer({ source: body, modified: undefined, signal: undefined })
  stream.push('more')
  // fetch() would take the cut for the end.
  const answer = await new Promise<IncomingMessage>((resolve) => get(offer.url, resolve))
  stream.destroy(new Error('cut'))
  await t.rejects(text(answer), 'a body without a length is cut, too')
  await t.rejects(offer.sent)
  await sources.close()
})
