/** aria2 on a free port, without the user's configuration. */
import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { freePorts } from './free-port.js'
import { startLasting, type LastingProgram } from './started-program.js'

export interface Aria2Server extends LastingProgram {
  readonly uri: string
  readonly secret: string
  call(method: string, params: readonly unknown[]): Promise<unknown>
  /** Seeds a torrent of these files, given by their paths in one folder. */
  share(torrent: Buffer, name: string, files: ReadonlyMap<string, Buffer>): Promise<void>
}

/** `options`: further command line options. */
export async function startAria2(...options: readonly string[]): Promise<Aria2Server> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-aria2-'))
  const [port = 0, listens = 0] = await freePorts(2)
  const secret = randomBytes(8).toString('hex')
  const uri = `http://127.0.0.1:${port}/jsonrpc`
  const program = await startLasting(
    'aria2c',
    [
      ...['--no-conf=true', '--enable-rpc=true', `--rpc-listen-port=${port}`, `--rpc-secret=${secret}`],
      ...[`--dir=${folder}`, `--listen-port=${listens}`, '--enable-dht=false', '--enable-dht6=false'],
      ...['--bt-enable-lpd=false', '--enable-peer-exchange=false', '--quiet=true', '--disk-cache=0', ...options],
    ],
    folder,
    async () => (await fetch(uri, { method: 'POST', body: '{}' })).status > 0,
  )
  const call = async (method: string, params: readonly unknown[]) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: '1', method, params: [`token:${secret}`, ...params] })
    const { result, error } = (await (await fetch(uri, { method: 'POST', body })).json()) as Record<string, unknown>
    if (error !== undefined) throw new Error(JSON.stringify(error))
    return result
  }
  return {
    ...program,
    call,
    share: async (torrent, name, files) => {
      for (const [path, bytes] of files) {
        const file = join(folder, name, path)
        await mkdir(dirname(file), { recursive: true })
        await writeFile(file, bytes)
      }
      await call('aria2.addTorrent', [torrent.toString('base64'), [], { dir: folder }])
    },
    uri,
    secret,
  }
}
