/** What surrounds every page: the bar at the top, the side bar, and the uploads. */
import { LogOut, PanelLeft, Search } from 'lucide-preact'
import type { ComponentChildren } from 'preact'
import { useContext, useEffect, useRef, useState } from 'preact/hooks'
import { Link, useLocation } from 'wouter-preact'
import { sideBar } from './components/appearance.ts'
import { Brand } from './components/brand.tsx'
import { Loaded, part } from './components/loaded.tsx'
import { useMedia } from './components/media.ts'
import { reporting } from './components/notices.tsx'
import { SessionEnded } from './components/session-ended.ts'
import { Announcement } from './announcement.tsx'
import { Sheet } from './navigation/sheet.tsx'
import { SideBar } from './navigation/side-bar.tsx'
import { FirstRun } from './session/first-run.tsx'
import { isAdmin, isGuest, signOut, type Me } from './session/me.ts'
import { textsOf } from './texts/texts.ts'
import { Uploads } from './uploads/uploads.tsx'
import { mayLeave } from './viewers/unsaved.ts'
import './frame.css'

const texts = textsOf('common', 'session')

const SearchDialog = part(() => import('./navigation/search-dialog.tsx'))

/** The windows that have no room for a side bar: `frame.css` has the same. */
const withoutSideBar = '(max-width: 56rem)'

const searchKeys = /Mac|iPhone|iPad/.test(navigator.userAgent) ? '⌘K' : 'Ctrl K'

export function Frame({ me, children }: { readonly me: Me; readonly children: ComponentChildren }) {
  const content = useRef<HTMLElement>(null)
  const isHidden = useContext(SessionEnded)
  const bar = useSideBar()
  const [isSearching, setSearching] = useState(false)
  useSearchKeys(!isHidden, () => setSearching(true))
  const leave = () => mayLeave() && void reporting(signOut())
  return (
    <div class="frame" hidden={isHidden}>
      <header class="bar">
        <button type="button" class="skip" onClick={() => content.current && focusOn(content.current)}>
          {texts.skip}
        </button>
        <button
          type="button"
          class="quiet icon"
          aria-label={texts.sideBar}
          title={texts.sideBar}
          aria-expanded={bar.isExpanded}
          onClick={bar.press}
        >
          <PanelLeft aria-hidden size={18} />
        </button>
        <Brand href="/" name={texts.appName} />
        <button type="button" class="search-button" aria-haspopup="dialog" onClick={() => setSearching(true)}>
          <Search aria-hidden size={16} />
          <span class="search-name">{texts.nav.search}</span>
          <kbd aria-hidden>{searchKeys}</kbd>
        </button>
        {isGuest(me) ? (
          <Link href="/@login" class="button primary">
            {texts.session.signIn}
          </Link>
        ) : (
          <button type="button" class="quiet sign-out" onClick={leave}>
            <LogOut aria-hidden size={16} />
            <span class="sign-out-name">{texts.session.signOut}</span>
          </button>
        )}
      </header>
      <div class="frame-middle">
        {!bar.isSheet && <SideBar me={me} isNarrow={bar.isNarrow} />}
        <div class="frame-content">
          <Announcement />
          {isAdmin(me) && <FirstRun />}
          <main ref={content}>{children}</main>
          <Uploads username={me.username} isGuest={isGuest(me)} />
        </div>
      </div>
      {bar.isSheet && bar.isExpanded && !isHidden && (
        <Sheet label={texts.sideBar} onClose={bar.close}>
          <SideBar me={me} />
        </Sheet>
      )}
      {isSearching && !isHidden && (
        <Loaded quiet>
          <SearchDialog me={me} onSignOut={leave} onClose={() => setSearching(false)} />
        </Loaded>
      )}
    </div>
  )
}

/** Moves the focus to an element that has it only now: a click on it does not. */
function focusOn(element: HTMLElement): void {
  element.tabIndex = -1
  element.addEventListener('blur', () => element.removeAttribute('tabindex'), { once: true })
  element.focus()
}

/** The state of the side bar, and what its button does: it narrows the bar, or opens it as a sheet. */
function useSideBar() {
  const [location] = useLocation()
  const isSheet = useMedia(withoutSideBar)
  const [isOpen, setOpen] = useState(false)
  useEffect(() => setOpen(false), [location, isSheet])
  const isNarrow = sideBar.chosen.value === 'symbols'
  return {
    isSheet,
    isNarrow,
    isExpanded: isSheet ? isOpen : !isNarrow,
    close: () => setOpen(false),
    press: () => {
      if (isSheet) setOpen(true)
      else sideBar.chosen.value = isNarrow ? 'names' : 'symbols'
    },
  }
}

/** Calls `open` for Ctrl+K, unless a dialog is open. */
function useSearchKeys(isActive: boolean, open: () => void): void {
  useEffect(() => {
    if (!isActive) return
    const onKey = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return
      event.preventDefault()
      if (document.querySelector('dialog[open]') === null) open()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [isActive])
}
