/** Who and what of events, in plain words. */
import { texts } from '../texts.ts'

const { events } = texts

/** `ann`, or what did it if it was no user. */
export function actorText(user: string): string {
  return user.startsWith('share:') ? events.visitor(user.slice('share:'.length)) : (events.actors[user] ?? user)
}

/** `stored a new file`. The kind as it is if the console does not know it. */
export function kindText(kind: string): string {
  return kind in events.kinds ? events.kinds[kind as keyof typeof events.kinds] : kind
}

interface Origin {
  readonly address: string | null
  readonly protocol: string | null
}

/** `192.0.2.7, WebDAV`. */
export function originText({ address, protocol }: Origin): string {
  return [address, protocol !== null && (events.protocols[protocol] ?? protocol)].filter(Boolean).join(', ')
}
