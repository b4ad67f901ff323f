/** How to reach the files by WebDAV and SFTP from each system, with the addresses of this server. */
import { useState } from 'preact/hooks'
import { get } from '../api/client.ts'
import { Copyable } from '../parts/copyable.tsx'
import { Failure } from '../parts/failure.tsx'
import { useRows } from '../parts/rows.ts'
import { useMe } from '../session/me.ts'
import { texts } from '../texts.ts'

const systems = ['windows', 'macos', 'linux'] as const
type System = (typeof systems)[number]

function ownSystem(): System {
  if (navigator.userAgent.includes('Windows')) return 'windows'
  return navigator.userAgent.includes('Mac OS') ? 'macos' : 'linux'
}

export function MountHelp() {
  const { data: access, error } = useRows('access', () => get('/api/me/access'))
  const { data: me } = useMe()
  const [system, setSystem] = useState(ownSystem)
  const { start } = texts.admin
  if (error) return <Failure error={error} />
  if (access === undefined) return <p class="loading">{texts.loading}</p>
  const { webdav, sftp } = access
  const dav = { windows: webdav, macos: webdav, linux: webdav.replace(/^http/, 'dav') }[system]
  const steps = start.systems[system]
  return (
    <>
      <label class="group">
        {start.system}
        <select value={system} onChange={(event) => setSystem(event.currentTarget.value as System)}>
          {systems.map((name) => (
            <option key={name} value={name}>
              {start.systems[name].name}
            </option>
          ))}
        </select>
      </label>
      <h3>WebDAV</h3>
      <p>{steps.webdav}</p>
      <Copyable text={dav} />
      <p>{start.credentials(me?.username ?? '')}</p>
      <p>{steps.byCommand}</p>
      <Copyable text={steps.command(webdav, me?.username ?? '')} />
      {system === 'windows' && !access.secure && <p class="notice">{start.windowsNeedsTls}</p>}
      <h3>SFTP</h3>
      {sftp === null ? (
        <p>{start.sftpOff}</p>
      ) : (
        <>
          <p>{start.sftp}</p>
          <Copyable text={`sftp -P ${sftp.port} ${me?.username ?? ''}@${sftp.host}`} />
          <p>{start.hostKeys}</p>
          <ul>
            {sftp.host_keys.map((key) => (
              <li key={key}>
                <code>{key}</code>
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  )
}
