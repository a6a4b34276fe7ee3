def test_greeting():
    assert open("/app/greeting.txt").read() == "Hello, world!\n"
