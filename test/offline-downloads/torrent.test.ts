/** Hosts that must not be reached are removed from torrents and magnet links; nothing else changes. */
import t from 'tap'
import { sanitizedMagnet, sanitizedTorrent } from '../../src/offline-downloads/torrent.js'
import { torrentOf } from './torrent-file.js'

const mayReach = async (url: URL) => url.hostname.endsWith('good.example')
const hash = 'c12fe1c06bba254a9dc9f519b335aa7c1367a88a'

void t.test('sanitizedMagnet() keeps the torrent and the permitted hosts', async (t) => {
  const good = ['http://good.example/announce', 'udp://a.good.example:6969', 'wss://good.example/socket']
  const bad = [
    'http://10.0.0.1/announce',
    'udp://router.example:80',
    'http://name:word@good.example/',
    'file:///etc/passwd',
    'nothing',
  ]
  const parameters = [...good, ...bad].map((tracker) => `tr=${encodeURIComponent(tracker)}`)
  const seeds = ['ws=http://bad.example/f', 'as=http://bad.example/f', 'xs=http://bad.example/f', 'x.pe=10.0.0.1:80']
  const numbered = ['tr.1=http%3A%2F%2Fbad.example', 'tr.2=http%3A%2F%2Fgood.example%2F2', 'mt=http://bad.example']
  const link = `magnet:?xt=urn:btih:${hash}&dn=A%20name&${[...parameters, ...seeds, ...numbered].join('&')}`
  t.equal(
    await sanitizedMagnet(link, mayReach),
    `magnet:?xt=urn:btih:${hash}&dn=A%20name&${parameters.slice(0, 3).join('&')}&tr.2=http%3A%2F%2Fgood.example%2F2`,
  )
  const unreadable = `magnet:?xt=urn:btih:${hash}&dn=caf%E9&tr=http%3A%2F%2Fgood.example%2F%E9`
  t.equal(
    await sanitizedMagnet(unreadable, mayReach),
    `magnet:?xt=urn:btih:${hash}`,
    'a name that is not UTF-8 is left out',
  )
  t.equal(await sanitizedMagnet(`MAGNET:?xt=urn:btih:${hash}`, mayReach), `magnet:?xt=urn:btih:${hash}`)
})

void t.test('sanitizedMagnet() rejects a link without a torrent', async (t) => {
  for (const link of ['magnet:?dn=x', 'magnet:?xt=urn:sha1:abc', 'magnet:?xt=urn:btih:', 'magnet:?', 'magnet:']) {
    await t.rejects(sanitizedMagnet(link, mayReach), { code: 'invalid' }, link)
  }
})

void t.test('sanitizedTorrent() keeps the info hash and the permitted hosts', async (t) => {
  const { bytes, hash } = torrentOf('name', Buffer.from('content'), {
    announce: 'http://10.0.0.1/announce',
    'announce-list': [['http://10.0.0.1/announce', 'udp://good.example:1'], ['udp://bad.example:1']],
    'url-list': ['http://good.example/f', 'http://169.254.169.254/f'],
    httpseeds: 'http://bad.example/f',
    nodes: [['10.0.0.1', 80]],
    comment: 'kept',
  })
  const made = await sanitizedTorrent(bytes, mayReach)
  const expected = torrentOf('name', Buffer.from('content'), {
    'announce-list': [['udp://good.example:1']],
    'url-list': ['http://good.example/f'],
    comment: 'kept',
  })
  t.equal(made.toString('latin1'), expected.bytes.toString('latin1'))
  t.equal(expected.hash, hash)
  const same = torrentOf('name', Buffer.from('content'), { announce: 'http://good.example/announce' })
  t.ok((await sanitizedTorrent(same.bytes, mayReach)).equals(same.bytes))
})

void t.test('sanitizedTorrent() checks at most 100 hosts', async (t) => {
  let asked = 0
  const count = async () => ((asked += 1), true)
  const trackers = Array.from({ length: 5000 }, (_, index) => [`http://t${index}.example/`])
  await sanitizedTorrent(torrentOf('name', Buffer.from('x'), { 'announce-list': trackers }).bytes, count)
  t.equal(asked, 100)
})

void t.test('sanitizedTorrent() rejects more values than it can parse in one turn', async (t) => {
  const refused = { code: 'invalid', reason: /too many files or addresses/ }
  const addresses = `d8:url-listl${'0:'.repeat(100_000)}e4:infod4:name1:xee`
  await t.rejects(
    sanitizedTorrent(Buffer.from(addresses), async () => true),
    refused,
  )
  const values = `d4:infol${'le'.repeat(1_000_000)}ee`
  await t.rejects(
    sanitizedTorrent(Buffer.from(values), async () => true),
    refused,
  )
})

void t.test('sanitizedTorrent() rejects malformed data', async (t) => {
  const nested = `${'l'.repeat(1000)}${'e'.repeat(1000)}`
  const broken = [
    ...['', 'd', 'e', 'de', 'i1e', '4:info', 'd4:info', 'd4:infode', 'd4:infod4:name', 'd4:infodeex', '<html>'],
    ...[`d4:info${nested}e`, 'd4:info99999999999:xe', 'd4:info-1:xe', 'd4:infoi1', 'd4:infoi--1ee', 'd4:infoie'],
  ]
  for (const text of broken) {
    await t.rejects(sanitizedTorrent(Buffer.from(text), mayReach), { code: 'invalid' }, text.slice(0, 30))
  }
  const bytes = torrentOf('name', Buffer.from('content')).bytes
  for (let length = 0; length < bytes.length; length++) {
    await t.rejects(sanitizedTorrent(bytes.subarray(0, length), mayReach), { code: 'invalid' })
  }
})
