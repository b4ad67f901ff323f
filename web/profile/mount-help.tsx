/** How the user reaches the files by WebDAV and SFTP from each system, with the addresses of this server. */
import { useState } from 'preact/hooks'
import { Link } from 'wouter-preact'
import { get, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { Copyable } from '../components/copyable.tsx'
import { Failure } from '../components/failure.tsx'
import { useRows } from '../components/rows.ts'
import type { Me } from '../session/me.ts'
import { may } from '../session/permissions.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common', 'mount')

const systems = { windows: 'Windows', macos: 'macOS', linux: 'Linux' } as const
type System = keyof typeof systems

function ownSystem(): System {
  if (navigator.userAgent.includes('Windows')) return 'windows'
  return navigator.userAgent.includes('Mac OS') ? 'macos' : 'linux'
}

export function MountHelp({ me }: { readonly me: Me }) {
  const { data: access, error } = useRows(keys.access, () => get('/api/me/access'))
  if (error) return <Failure error={error} />
  if (access === undefined) return <p class="loading skeleton">{texts.loading}</p>
  return (
    <>
      {may(me, 'webdavRead') && <WebDavHelp me={me} access={access} />}
      {may(me, 'sftpRead') && <SftpHelp me={me} access={access} />}
      <p>
        <Link href="/@manual/clients">{texts.mount.more}</Link>
      </p>
    </>
  )
}

interface HelpProps {
  readonly me: Me
  readonly access: Data<'/api/me/access'>
}

function WebDavHelp({ me, access: { webdav, secure } }: HelpProps) {
  const [system, setSystem] = useState(ownSystem)
  const { mount } = texts
  return (
    <>
      <h3>WebDAV</h3>
      <label class="group">
        {mount.system}
        <select value={system} onChange={(event) => setSystem(event.currentTarget.value as System)}>
          {Object.entries(systems).map(([name, title]) => (
            <option key={name} value={name}>
              {title}
            </option>
          ))}
        </select>
      </label>
      {system === 'windows' && !secure && <p class="notice">{mount.windowsNeedsTls}</p>}
      <p>{mount.webdav[system]}</p>
      <Copyable text={system === 'linux' ? webdav.replace(/^http/, 'dav') : webdav} />
      <p>{mount.credentials(me.username)}</p>
      {commandsOf(system, webdav, me.username).map(([about, command]) => (
        <div key={about}>
          <p>{about}</p>
          <Copyable text={command} />
        </div>
      ))}
    </>
  )
}

/** The commands that mount the URL, each with what is said of it. */
function commandsOf(system: System, url: string, user: string): readonly (readonly [about: string, command: string])[] {
  const { terminal, davfs, thenMount, unmount } = texts.mount
  switch (system) {
    case 'windows':
      return [[terminal, `net use * ${url} /user:${user} *`]]
    case 'macos':
      return [[terminal, `mkdir -p ~/tidegate && mount_webdav -i ${url} ~/tidegate`]]
    case 'linux':
      return [
        [davfs, "echo 'buf_size 64' | sudo tee -a /etc/davfs2/davfs2.conf"],
        [thenMount, `mkdir -p ~/tidegate && sudo mount -t davfs -o uid=$(id -u),gid=$(id -g) ${url} ~/tidegate`],
        [unmount, 'sudo umount ~/tidegate'],
      ]
  }
}

function SftpHelp({ me, access: { sftp } }: HelpProps) {
  const { mount } = texts
  return (
    <>
      <h3>SFTP</h3>
      {sftp === null ? (
        <p>{mount.sftpOff}</p>
      ) : (
        <>
          <p>{mount.sftp}</p>
          <Copyable
            text={`sftp -P ${sftp.port} ${me.username}@${sftp.host.includes(':') ? `[${sftp.host}]` : sftp.host}`}
          />
          <p>{mount.hostKeys}</p>
          <ul>
            {sftp.host_keys.map(({ type, fingerprint }) => (
              <li key={fingerprint}>
                {type.replace('ssh-', '').toUpperCase()} <code>{fingerprint}</code>
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  )
}
