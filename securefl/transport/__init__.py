"""Moving frames: in memory and over MQTT, and the brokers."""
