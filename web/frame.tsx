/** What surrounds every page: search, navigation, and the uploads. */
import { Menu } from 'lucide-preact'
import type { ComponentChildren } from 'preact'
import { useContext, useEffect, useRef, useState } from 'preact/hooks'
import { Link, useLocation } from 'wouter-preact'
import { mayLeave } from './viewers/unsaved.ts'
import { Brand } from './components/brand.tsx'
import { reporting } from './components/notices.tsx'
import { SearchBox } from './search/search-box.tsx'
import { Announcement } from './announcement.tsx'
import { FirstRun } from './session/first-run.tsx'
import { isAdmin, isGuest, signOut, type Me } from './session/me.ts'
import { SessionEnded } from './components/session-ended.ts'
import { textsOf } from './texts/texts.ts'
import { Uploads } from './uploads/uploads.tsx'
import './frame.css'

const texts = textsOf('common', 'session')

/** The pages that the bar names, by the least rights that they need. The rest of the administration is one more. */
const places = [
  { name: 'files', address: '/' },
  { name: 'shares', address: '/@manage/shares', needs: 'account' },
  { name: 'tasks', address: '/@tasks', needs: 'account' },
  { name: 'profile', address: '/@profile', needs: 'account' },
  { name: 'storages', address: '/@manage/storages', needs: 'admin' },
  { name: 'users', address: '/@manage/users', needs: 'admin' },
  { name: 'groups', address: '/@manage/groups', needs: 'admin' },
  { name: 'rules', address: '/@manage/rules', needs: 'admin' },
  { name: 'settings', address: '/@manage/settings', needs: 'admin' },
  { name: 'administration', address: '/@manage', needs: 'admin' },
] as const

export function Frame({ me, children }: { readonly me: Me; readonly children: ComponentChildren }) {
  const content = useRef<HTMLElement>(null)
  return (
    <div class="frame" hidden={useContext(SessionEnded)}>
      <header class="bar">
        <button type="button" class="skip" onClick={() => content.current && focusOn(content.current)}>
          {texts.skip}
        </button>
        <Brand href="/" name={texts.appName} />
        <SearchBox />
        <Navigation me={me} />
        {isGuest(me) ? (
          <Link href="/@login" class="button">
            {texts.session.signIn}
          </Link>
        ) : (
          <button type="button" class="quiet" onClick={() => mayLeave() && void reporting(signOut())}>
            {texts.session.signOut}
          </button>
        )}
      </header>
      <Announcement />
      {isAdmin(me) && <FirstRun />}
      <main ref={content}>{children}</main>
      <Uploads username={me.username} isGuest={isGuest(me)} />
    </div>
  )
}

/** Moves the focus to an element that has it only now: a click on it does not. */
function focusOn(element: HTMLElement): void {
  element.tabIndex = -1
  element.addEventListener('blur', () => element.removeAttribute('tabindex'), { once: true })
  element.focus()
}

/** On narrow screens a button shows and hides the links. */
function Navigation({ me }: { readonly me: Me }) {
  const [location] = useLocation()
  const [open, setOpen] = useState(false)
  useEffect(() => setOpen(false), [location])
  const granted = { account: !isGuest(me), admin: isAdmin(me) }
  const current = placeOf(location)
  return (
    <nav aria-label={texts.main} onKeyDown={({ key }) => key === 'Escape' && setOpen(false)}>
      <button type="button" class="menu-button" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Menu aria-hidden size={16} /> {texts.menu}
      </button>
      <ul class={open ? 'open' : undefined}>
        {places
          .filter((place) => !('needs' in place) || granted[place.needs])
          .map(({ name, address }) => (
            <li key={name}>
              <Link href={address} aria-current={name === current ? 'page' : undefined}>
                {texts.nav[name]}
              </Link>
            </li>
          ))}
      </ul>
    </nav>
  )
}

/** The place of the bar to which the address belongs. */
function placeOf(location: string): (typeof places)[number]['name'] | undefined {
  const exact = places.find(({ address }) => address === location)
  if (exact) return exact.name
  if (location.startsWith('/@manage/')) return 'administration'
  return location.startsWith('/@') ? undefined : 'files'
}
