/** qBittorrent on free ports with its own profile: no DHT, no local discovery, no encryption. */
import { pbkdf2Sync, randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePorts } from './free-port.js'
import { startLasting, type LastingProgram } from './started-program.js'

export interface QBittorrentServer extends LastingProgram {
  /** The URL, with user name and password. */
  readonly url: string
  /** The names of its torrents. */
  names(): Promise<readonly string[]>
}

const password = 'p@ss word'

/** In the form of its configuration: salt and key of PBKDF2, both in Base64. */
function hashed(text: string): string {
  const salt = randomBytes(16)
  const key = pbkdf2Sync(text, salt, 100_000, 64, 'sha512')
  return `@ByteArray(${salt.toString('base64')}:${key.toString('base64')})`
}

export async function startQBittorrent(): Promise<QBittorrentServer> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-qbittorrent-'))
  const [port = 0, listens = 0] = await freePorts(2)
  const settings = [
    ...['[LegalNotice]', 'Accepted=true', '', '[BitTorrent]', `Session\\Port=${listens}`, 'Session\\DHTEnabled=false'],
    ...['Session\\LSDEnabled=false', 'Session\\PeXEnabled=false', 'Session\\Interface=lo', 'Session\\InterfaceName=lo'],
    ...[
      'Session\\InterfaceAddress=127.0.0.1',
      'Session\\UseRandomPort=false',
      'Session\\SaveResumeDataInterval=1',
      'Session\\BTProtocol=TCP',
    ],
    ...['', '[Network]', 'PortForwardingEnabled=false', '', '[Preferences]', `WebUI\\Port=${port}`],
    ...['WebUI\\Address=127.0.0.1', 'WebUI\\Username=admin', `WebUI\\Password_PBKDF2="${hashed(password)}"`],
    ...['WebUI\\LocalHostAuth=true', 'WebUI\\UseUPnP=false', ''],
  ]
  const config = join(folder, 'qBittorrent', 'config')
  await mkdir(config, { recursive: true })
  await writeFile(join(config, 'qBittorrent.conf'), settings.join('\n'))
  const program = await startLasting(
    'qbittorrent-nox',
    [`--profile=${folder}`, `--webui-port=${port}`],
    folder,
    async () => (await fetch(`http://127.0.0.1:${port}/api/v2/app/version`)).status === 403,
  )
  const names = async () => {
    const signedIn = await fetch(`http://127.0.0.1:${port}/api/v2/auth/login`, {
      method: 'POST',
      body: new URLSearchParams({ username: 'admin', password }),
    })
    const headers = { cookie: signedIn.headers.get('set-cookie') ?? '' }
    const listed = await fetch(`http://127.0.0.1:${port}/api/v2/torrents/info`, { headers })
    return ((await listed.json()) as { name: string }[]).map(({ name }) => name)
  }
  return {
    ...program,
    names,
    url: `http://admin:${encodeURIComponent(password)}@127.0.0.1:${port}/`,
  }
}
