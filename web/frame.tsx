/** What surrounds every page: search, navigation, and the uploads. */
import type { ComponentChildren } from 'preact'
import { Link, useLocation } from 'wouter-preact'
import { reporting } from './parts/notices.tsx'
import { isAdmin, isGuest, signOut, type Me } from './session/me.ts'
import { FirstRun } from './session/first-run.tsx'
import { SearchBox } from './search/search-box.tsx'
import { texts } from './texts.ts'
import { Uploads } from './uploads/uploads.tsx'

export function Frame({ me, children }: { readonly me: Me; readonly children: ComponentChildren }) {
  const guest = isGuest(me)
  return (
    <div class="frame">
      <header class="bar">
        <Link href="/" class="brand">
          {texts.appName}
        </Link>
        <SearchBox />
        <nav aria-label={texts.main}>
          <Place href="/" text={texts.nav.files} />
          {!guest && <Place href="/@tasks" text={texts.nav.tasks} />}
          {!guest && <Place href="/@profile" text={texts.nav.profile} />}
          {isAdmin(me) && <Place href="/@manage/storages" text={texts.nav.storages} />}
          {isAdmin(me) && <Place href="/@manage/users" text={texts.nav.users} />}
          {isAdmin(me) && <Place href="/@manage/rules" text={texts.nav.rules} />}
          {isAdmin(me) && <Place href="/@manage/settings" text={texts.nav.settings} />}
          {isAdmin(me) && <Place href="/@manage" text={texts.nav.administration} />}
        </nav>
        {guest ? (
          <Link href="/@login" class="button">
            {texts.session.signIn}
          </Link>
        ) : (
          <button type="button" onClick={() => void reporting(signOut())}>
            {texts.session.signOut}
          </button>
        )}
      </header>
      {isAdmin(me) && <FirstRun />}
      <main>{children}</main>
      <Uploads owner={me.username} />
    </div>
  )
}

function Place({ href, text }: { readonly href: string; readonly text: string }) {
  const [location] = useLocation()
  const isCurrent = location === href
  return (
    <Link href={href} aria-current={isCurrent ? 'page' : undefined}>
      {text}
    </Link>
  )
}
