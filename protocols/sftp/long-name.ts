/** The long name of READDIR (draft §7): the line that `ls -l` would print. */
import type { Entry } from '../../src/contract/entry.js'
import { modeOf } from './attributes.js'

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'] as const
const typeLetter = { file: '-', folder: 'd', symlink: 'l' } as const
const halfYear = (365 / 2) * 24 * 3600 * 1000

/** Times are in the server's time zone. As in `ls`, a time in the future or older than half a year shows the year. */
export function longName(entry: Entry, name: string, owner: string, now: Date): string {
  const hardLinks = entry.kind === 'folder' ? 2 : 1
  const user = owner.padEnd(8)
  const start = `${typeLetter[entry.kind]}${permissionLetters(modeOf(entry))} ${String(hardLinks).padStart(4)}`
  return `${start} ${user} ${user} ${String(entry.size).padStart(12)} ${formatTime(entry.modified, now)} ${name}`
}

/** `rwxr-xr-x`, with set-user-ID, set-group-ID and sticky bits as `ls` shows them. */
export function permissionLetters(mode: number): string {
  const triple = (bits: number, special: boolean, letter: string): string => {
    const execute = (bits & 1) !== 0
    const last = special ? (execute ? letter : letter.toUpperCase()) : execute ? 'x' : '-'
    return `${bits & 4 ? 'r' : '-'}${bits & 2 ? 'w' : '-'}${last}`
  }
  return (
    triple((mode >> 6) & 7, (mode & 0o4000) !== 0, 's') +
    triple((mode >> 3) & 7, (mode & 0o2000) !== 0, 's') +
    triple(mode & 7, (mode & 0o1000) !== 0, 't')
  )
}

function formatTime(date: Date, now: Date): string {
  const month = months[date.getMonth()] ?? ''
  const day = String(date.getDate()).padStart(2)
  const age = now.getTime() - date.getTime()
  const recent = age >= 0 && age < halfYear
  const time = `${String(date.getHours()).padStart(2, '0')}:${String(date.getMinutes()).padStart(2, '0')}`
  return `${month} ${day} ${recent ? time : String(date.getFullYear()).padStart(5)}`
}
