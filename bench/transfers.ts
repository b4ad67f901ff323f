/** Large files over HTTP and WebDAV. */
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newName } from './content.js'
import { encodedPath, type HttpProtocol, type Peer } from './peers/peer.js'
import { isTidegate, type Tidegate } from './peers/tidegate.js'
import { curl, headerWords, run } from './programs.js'
import { mebibytes, scaled, type Aim, type Bench, type Row } from './row.js'
import { sampled, seconds } from './samples.js'

const getAims: readonly Aim[] = [
  { factor: 1, peers: ['nginx'] },
  { factor: 1.2, peers: ['rclone'] },
]
const putAims: readonly Aim[] = [
  { factor: 1.8, peers: ['nginx'] }, // SFTPGo
  { factor: 2, peers: ['rclone'] },
  { factor: 0.85, peers: ['node'] },
]

interface Large {
  readonly name: string
  readonly verb: 'GET' | 'PUT'
  readonly over: string
  /** Transfers the large file, and resolves to the seconds; undefined if the peer does not support the protocol. */
  readonly transfer: (peer: Peer, bench: Bench) => (() => Promise<number>) | undefined
}

function large({ name, verb, over, transfer }: Large): Row {
  const aims = verb === 'GET' ? getAims : putAims
  return {
    name,
    writes: ({ size }) => (verb === 'PUT' ? size : 0),
    figures: ({ size }) => [{ title: `${verb} ${mebibytes(size)}, ${over}`, unit: 's', aims }],
    async measure(peer, bench) {
      const work = transfer(peer, bench)
      return work && [await sampled(peer, work)]
    },
  }
}

export function getOverWebDav({ url, headers }: HttpProtocol, { bigFile }: Bench): Promise<number> {
  return curl([...headerWords(headers), url + bigFile])
}

/** Uploads the large file under a new name, and deletes it from the disk. */
async function put({ bigFile, files }: Bench, words: (name: string) => readonly string[]): Promise<number> {
  const name = newName()
  try {
    return await curl([...words(name), '-H', 'Expect:', '-T', join(files, bigFile)])
  } finally {
    await rm(join(files, name), { force: true })
  }
}

export function putOverWebDav({ url, headers }: HttpProtocol, bench: Bench): Promise<number> {
  return put(bench, (name) => [...headerWords(headers), url + encodedPath(name)])
}

export function putOverHttp({ url, token }: Tidegate, bench: Bench): Promise<number> {
  return put(bench, (name) => [
    ...headerWords({ Authorization: token, 'File-Path': encodeURIComponent(`/${name}`) }),
    `${url}/api/fs/put`,
  ])
}

const many = 64

const putMany: Row = {
  name: 'put-many',
  writes: (bench) => many * scaled(bench, 16 * 2 ** 20),
  figures: (bench) => [
    {
      title: `PUT ${many} × ${mebibytes(scaled(bench, 16 * 2 ** 20))}, 32 at once, WebDAV`,
      unit: 's',
      aims: [
        { factor: 0.86, peers: ['nginx'] }, // 0.9 × SFTPGo
        { factor: 0.85, peers: ['node'] },
      ],
    },
    { title: 'peak memory of that', unit: 'MiB', aims: [{ atMost: 200 }] },
  ],
  async measure(peer, bench) {
    const { dav, processes } = peer
    if (dav === undefined) return undefined
    const content = join(bench.folder, 'part')
    await writeFile(content, Buffer.alloc(scaled(bench, 16 * 2 ** 20), 'tide'))
    const names = Array.from({ length: many }, newName)
    const words = headerWords(dav.headers)
    const lists = names.flatMap((name) => ['-T', content, '-o', '/dev/null', dav.url + name])
    const parallel = ['--parallel', '--parallel-immediate', '--parallel-max', '32']
    try {
      for (const each of processes) await each.resetPeak()
      const time = await sampled(peer, () =>
        seconds(() => run('curl', ['-s', '-S', '-f', ...parallel, ...words, '-H', 'Expect:', ...lists])),
      )
      let peak = 0
      for (const each of processes) peak = Math.max(peak, await each.peakMemory())
      return [time, peak / 2 ** 20]
    } finally {
      await Promise.all(names.map((name) => rm(join(bench.files, name), { force: true })))
    }
  },
}

export const transferRows: readonly Row[] = [
  large({
    name: 'get-http',
    verb: 'GET',
    over: 'HTTP',
    transfer: ({ download }, { bigFile }) => download && (async () => curl([await download(bigFile)])),
  }),
  large({
    name: 'get-webdav',
    verb: 'GET',
    over: 'WebDAV',
    transfer: ({ dav }, bench) => dav && (() => getOverWebDav(dav, bench)),
  }),
  large({
    name: 'put-webdav',
    verb: 'PUT',
    over: 'WebDAV',
    transfer: ({ dav }, bench) => dav && (() => putOverWebDav(dav, bench)),
  }),
  large({
    name: 'put-http',
    verb: 'PUT',
    over: 'HTTP API (peers: WebDAV)',
    transfer: (peer, bench) => {
      if (isTidegate(peer)) return () => putOverHttp(peer, bench)
      const { dav } = peer
      return dav && (() => putOverWebDav(dav, bench))
    },
  }),
  putMany,
]
