/** Torrents for tests, and a tracker on loopback (BEP 3, 23). */
import { createHash } from 'node:crypto'
import type { Test } from 'tap'
import { startScripted, type ScriptedServer } from './scripted-server.js'

type Bencodable = string | number | Buffer | readonly Bencodable[] | { readonly [key: string]: Bencodable }

function bencoded(value: Bencodable): Buffer {
  if (typeof value === 'number') return Buffer.from(`i${value}e`)
  if (typeof value === 'string') return bencoded(Buffer.from(value))
  if (Buffer.isBuffer(value)) return Buffer.concat([Buffer.from(`${value.length}:`), value])
  if (Array.isArray(value)) {
    return Buffer.concat([Buffer.from('l'), ...(value as readonly Bencodable[]).map(bencoded), Buffer.from('e')])
  }
  const members = Object.entries(value as Record<string, Bencodable>).sort(([one], [other]) => (one < other ? -1 : 1))
  const parts = members.flatMap(([key, member]) => [bencoded(key), bencoded(member)])
  return Buffer.concat([Buffer.from('d'), ...parts, Buffer.from('e')])
}

const pieceLength = 65_536

interface TorrentFile {
  readonly bytes: Buffer
  /** The hash of the info dictionary, hexadecimal. */
  readonly hash: string
}

/** A torrent of files in one folder of this name, or of a single file. `more`: keys beside `info`. */
export function torrentOf(
  name: string,
  content: Buffer | ReadonlyMap<string, Buffer>,
  more: Readonly<Record<string, Bencodable>> = {},
): TorrentFile {
  const files = Buffer.isBuffer(content) ? undefined : content
  const all = files ? Buffer.concat([...files.values()]) : (content as Buffer)
  const pieces: Buffer[] = []
  for (let at = 0; at < all.length; at += pieceLength) {
    pieces.push(
      createHash('sha1')
        .update(all.subarray(at, at + pieceLength))
        .digest(),
    )
  }
  const info = bencoded({
    name,
    'piece length': pieceLength,
    pieces: Buffer.concat(pieces),
    private: 1,
    ...(files
      ? { files: [...files].map(([path, bytes]) => ({ length: bytes.length, path: path.split('/') })) }
      : { length: all.length }),
  })
  const keys = Object.entries({ ...more, info: '' }).sort(([one], [other]) => (one < other ? -1 : 1))
  const parts = keys.flatMap(([key, value]) => [bencoded(key), key === 'info' ? info : bencoded(value)])
  return {
    bytes: Buffer.concat([Buffer.from('d'), ...parts, Buffer.from('e')]),
    hash: createHash('sha1').update(info).digest('hex'),
  }
}

/** A tracker that returns to each client every other client that asked before. */
export function startTracker(t: Test): Promise<ScriptedServer> {
  const ports = new Set<number>()
  return startScripted(t, (request, answer) => {
    const own = Number(/[?&]port=(\d+)/.exec(request.url ?? '')?.[1])
    // A client that receives itself as a peer bans the address, which all clients of the test share.
    const peers = [...ports.add(own)]
      .filter((port) => port !== own)
      .map((port) => Buffer.from([127, 0, 0, 1, port >> 8, port & 0xff]))
    answer.end(bencoded({ interval: 1, 'min interval': 1, peers: Buffer.concat(peers) }))
  })
}
