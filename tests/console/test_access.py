"""What every page shares: the drawer at its side."""


def test_drawer_returns_the_focus_stacks_where_asked_and_tells_only_the_reader_s_closing(visit):
    visitor = visit()
    visitor.open("/keys")
    page = visitor.page
    page.evaluate(
        """async () => {
          const { openDrawer, closeDrawer } = await import(document.documentElement.dataset.files + "/drawer.js");
          window.wereClosed = [];
          window.open_ = (title, more = {}) =>
            openDrawer({ title, body: ["Text of " + title], onClose: () => wereClosed.push(title), ...more });
          window.closeDrawer = closeDrawer;
        }"""
    )
    page.get_by_label("Email", exact=True).focus()
    page.evaluate("() => { open_('First'); open_('Second').show('Second, loaded', 'More'); }")
    assert page.get_by_role("dialog").count() == 1
    assert page.get_by_role("dialog", name="Second, loaded").inner_text().endswith("More")
    page.evaluate("() => { open_('Above', { over: true, wide: true }); }")
    visitor.check_both_layouts()
    page.keyboard.press("Escape")
    page.get_by_role("dialog", name="Above").wait_for(state="detached")
    page.get_by_role("dialog", name="Second").wait_for()
    page.set_viewport_size({"width": 1280, "height": 800})
    page.mouse.click(4, 400)
    page.get_by_role("dialog").wait_for(state="detached")
    assert page.evaluate("() => [wereClosed, document.activeElement.id]") == [["Above", "Second"], "new-email"]
    page.evaluate("() => { open_('Third'); closeDrawer(); }")
    assert page.get_by_role("dialog").count() == 0
    assert page.evaluate("wereClosed.length") == 2
